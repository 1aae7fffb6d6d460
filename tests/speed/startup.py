"""How long the command line takes from a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import ROOT, user_environment

EMPTY = "import typer\napp = typer.Typer()\n\n@app.command()\ndef main():\n    'Do nothing.'\n\napp()\n"


def processor_seconds(*commands: tuple[str, ...], folder: Path, repeats: int = 20) -> Iterator[list[float]]:
    """Yield after each round the least processor times of Python processes, in turns: like loads. [s]"""
    least = [float("inf")] * len(commands)
    for _ in range(repeats):
        for place, arguments in enumerate(commands):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                env=user_environment(folder),
                check=True,
                capture_output=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            least[place] = min(least[place], taken)
        yield [*least]


def start_seconds(folder: Path) -> Iterator[list[float]]:
    """Yield the times of an empty application's help, the planner's, and a search for a 7B model. [s]"""
    return processor_seconds(
        ("-c", EMPTY, "--help"),
        ("-m", "planner", "--help"),
        ("-m", "planner", "search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8"),
        folder=folder,
    )


def main() -> None:
    """Print the figures."""
    *_, (empty, help_, found) = start_seconds(ROOT)
    print(f"planner --help over an empty typer application's help: {help_ / empty:.2f} (at most 1.2)")
    print(
        f"planner search llama2-7b --hardware dgx-h100 --gpus 8: {found:.2f} s (under 1), "
        f"{found / empty:.1f} times the empty application's help (at most 8)"
    )


if __name__ == "__main__":
    main()
