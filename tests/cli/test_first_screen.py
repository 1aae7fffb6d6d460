"""The first screen of the README as typed: the demo, what it prints, its files, and how the script starts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cli.command import planner
from tests.cli.docs_blocks import blocks, commands
from tests.helpers import ROOT


def first_command() -> list[str]:
    """Return the words of the first command that the README shows with its output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    console = next(block for block in blocks(text) if block.language == "console")
    return shlex.split(next(commands(console)).text.replace("\\\n", " "))


def test_the_demo_is_what_the_readme_shows() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^demo:.*\n\t\$\(RUN\) (.*)", makefile, re.MULTILINE)
    assert recipe is not None
    assert shlex.split(recipe[1]) == [*first_command(), "--force"]


def test_it_runs_as_typed_up_to_the_words_of_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = planner(*first_command()[1:])
    assert (done.code, len(done.out.splitlines()) <= 24) == (0, True)
    told = re.search(r"wrote out: (.*); start with: (.*)$", done.err, re.MULTILINE)
    assert told is not None
    assert all((tmp_path / "out" / name).is_file() for name in told[1].split(", "))
    run = subprocess.run(
        shlex.split(told[2]), cwd=tmp_path / "out", capture_output=True, text=True, check=False, timeout=60,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "DATA_PATH" in run.stderr
