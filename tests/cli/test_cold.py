"""What a command imports and holds in a process of its own: heavy packages stay out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import user_environment
from tests.speed.bench import cold, search_arguments


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (("--help",), ("numpy", "pydantic", "yaml", "rich", "scipy", "pulp")),
        (("search", "--help"), ("numpy", "yaml", "rich", "scipy", "pulp")),
        (
            ("search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8"),
            ("rich", "scipy", "pulp", "highspy"),
        ),
        (
            ("estimate", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8"),
            ("rich", "scipy", "pulp", "highspy"),
        ),
    ],
)
def test_a_command_imports_only_what_it_uses(
    tmp_path: Path, arguments: tuple[str, ...], heavy: tuple[str, ...]
) -> None:
    program = (
        "import sys\nfrom planner.cli.app import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"sys.stderr.write(' '.join(name for name in {heavy!r} if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=tmp_path, env=user_environment(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""


SLOW_HELP = ("simulate", "cluster", "models", "hardware")
"""Commands whose options are made with numpy or YAML."""


def test_no_other_help_imports_what_only_answers_use(tmp_path: Path) -> None:
    """All commands' options in one process."""
    program = (
        "import sys\nfrom planner.cli.commands import LazyCommands\ncommands = LazyCommands()\n"
        f"names = [name for name in commands if name not in {SLOW_HELP!r}]\n"
        "for name in names:\n    commands[name]\n"
        "heavy = ('numpy', 'yaml', 'rich', 'scipy', 'pulp')\n"
        "print(len(names), *(one for one in heavy if one in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env=user_environment(tmp_path), capture_output=True, text=True, check=True,
    )  # fmt: skip
    count, *heavy = done.stdout.split()
    assert int(count) > 20
    assert heavy == []


def test_memory_of_a_search_is_bounded(tmp_path: Path) -> None:
    run = cold(search_arguments("llama2-7b", "dgx-h100", 4096, 64, 8), tmp_path)
    assert run.memory < 500e6
