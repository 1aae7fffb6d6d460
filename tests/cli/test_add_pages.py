"""The pages that tell how to extend the planner, followed word by word in a copy of the checkout."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.docs_blocks import replay
from tests.helpers import ROOT

NOT_HERE = "<!-- not run: in a copy of the checkout -->\n"
COPIED = ("planner", "tests", "hardware_profiles", "pyproject.toml")
LINKED = ("docs", "models_zoo")
UNTOUCHED = {
    "tests": {
        "browser",
        "fuzz",
        "golden",
        "gpu",
        "lab",
        "measured",
        "oracle",
        "ray",
        "speed",
        "torch",
        "validate",
    },
    "hardware_profiles": {"accelerators", "curves", "networks", "nodes", "scaleups"},
}
"""Folders that no page writes to, which need no copy."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in COPIED:
        linked = UNTOUCHED.get(name, set())
        if (ROOT / name).is_dir():
            skipped = shutil.ignore_patterns(".pytest_cache", *linked)
            shutil.copytree(ROOT / name, folder / name, ignore=skipped)
        else:
            shutil.copy(ROOT / name, folder / name)
        for inner in sorted(linked):
            (folder / name / inner).symlink_to(ROOT / name / inner)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize(
    "page",
    [
        "add-a-schedule",
        "add-a-runtime",
        "add-an-engine",
        "add-a-setting",
        "add-an-era",
        "add-an-operator",
        "add-a-launcher",
    ],
)
def test_following_the_page_adds_what_it_says(page: str, checkout: Path) -> None:
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text(encoding="utf-8")
    assert text.count(NOT_HERE) >= 4
    faults = replay(text.replace(NOT_HERE, ""), checkout).faults
    assert not faults, "\n\n".join(faults)
