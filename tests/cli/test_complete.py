"""Shell completion: what a shell is told, and a real bash that asks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from planner.cli.complete import SHELLS, VARIABLE
from tests.cases import every
from tests.cli.command import planner, planner_in
from tests.helpers import ROOT, user_environment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a folder with the command in it."""
    (tmp_path / "planner").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m planner "$@"\n')
    (tmp_path / "planner").chmod(0o755)
    return tmp_path


def environment(home: Path) -> dict[str, str]:
    plain = user_environment(home)
    return plain | {"PATH": f"{home}{os.pathsep}{plain['PATH']}"}


def asked(home: Path, line: str) -> list[str]:
    """Return what bash is told for a line whose last word is not finished."""
    shell = {VARIABLE: "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    with mock.patch.dict(os.environ, environment(home) | shell, clear=True):
        done = planner_in(home)
    assert (done.code, done.err) == (0, "")
    return done.out.split()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("planner expl", ["explain"]),
        ("planner search llama3-", ["llama3-70b", "llama3-8b"]),
        ("planner estimate gpt-oss", ["gpt-oss-120b", "gpt-oss-20b"]),
        ("planner search x --hardware dgx-a100", ["dgx-a100-40gb", "dgx-a100-80gb"]),
        ("planner search x --runtime mega", ["megatron-bridge", "megatron-lm"]),
        ("planner search x --precision mx", ["mxfp8"]),
        ("planner hardware show h20-9", ["h20-96gb"]),
        ("planner compare a.yaml --hardware dgx-b2", ["dgx-b200"]),
        ("planner search x --oom", ["--oom-risk"]),
        ("planner search no-such-model", []),
    ],
)
def test_names_are_completed(home: Path, line: str, words: list[str]) -> None:
    assert asked(home, line) == words


def test_a_broken_configuration_does_not_disturb_a_shell(home: Path) -> None:
    (home / "planner.yaml").write_text("colour: [\n")
    assert asked(home, "planner expl") == ["explain"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_real_bash_completes(home: Path) -> None:
    lines = (
        "source <(planner completion bash)",
        "COMP_WORDS=(planner search mixt); COMP_CWORD=2",
        "_planner_completion planner mixt search",
        'echo "${COMPREPLY[@]}"',
    )
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)], env=environment(home), capture_output=True, text=True, cwd=home
    )
    assert (done.stdout, done.stderr) == ("mixtral-8x22b mixtral-8x7b\n", "")


@every("shell", SHELLS)
def test_every_shell_has_a_script(shell: str) -> None:
    done = planner("completion", shell)
    assert (done.code, done.err) == (0, "")
    assert VARIABLE in done.out


def test_an_unknown_shell_is_told() -> None:
    done = planner("completion", "bsh")
    assert done.code == 2
    assert "nearest: bash" in done.err


def test_it_is_installed_where_asked(home: Path) -> None:
    done = subprocess.run(
        [home / "planner", "completion", "bash", "--install"],
        env=environment(home), capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    assert "bash completion is in" in done.stderr
    assert "_planner_completion" in next(home.rglob("planner.sh")).read_text()
