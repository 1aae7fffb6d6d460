"""The pages that tell how to extend the planner, followed word by word in a copy of the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.docs_blocks import replay
from tests.helpers import ROOT

NOT_HERE = "<!-- not run: in a copy of the checkout -->\n"
COPIED = ("planner", "tests", "docs", "hardware_profiles", "models_zoo", "pyproject.toml")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    for name in COPIED:
        tables = ["runs"] if name == "tests" else []
        skipped = shutil.ignore_patterns("__pycache__", ".pytest_cache", *tables)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.mark.parametrize("page", ["add-a-schedule", "add-a-runtime", "add-an-era"])
def test_following_the_page_adds_what_it_says(page: str, checkout: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    assert text.count(NOT_HERE) >= 4
    faults = replay(text.replace(NOT_HERE, ""), checkout).faults
    assert not faults, "\n\n".join(faults)
