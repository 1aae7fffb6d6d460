"""Help is as fast as an empty application's, a search takes less than a second, heavy packages stay out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import user_environment
from tests.speed.startup import help_ratio, search_seconds


def test_help_is_as_fast_as_that_of_an_empty_application(tmp_path: Path) -> None:
    assert help_ratio(tmp_path) <= 1.2


def test_a_search_for_a_small_model_takes_less_than_a_second(tmp_path: Path) -> None:
    assert search_seconds(tmp_path) < 1.0


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
