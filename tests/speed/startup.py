"""How long the command line takes from a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT, user_environment

EMPTY = "import typer\napp = typer.Typer()\n\n@app.command()\ndef main():\n    'Do nothing.'\n\napp()\n"


def processor_seconds(*commands: tuple[str, ...], folder: Path, repeats: int = 20) -> list[float]:
    """Return the least processor times of Python processes, in turns so that all meet the same load. [s]"""
    times: list[list[float]] = [[] for _ in commands]
    for _ in range(repeats):
        for arguments, taken in zip(commands, times, strict=True):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [sys.executable, *arguments],
                cwd=folder,
                env=user_environment(folder),
                check=True,
                capture_output=True,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return [min(taken) for taken in times]


def start_seconds(folder: Path) -> tuple[float, float, float]:
    """Return the times of an empty application's help, the planner's, and a search for a 7B model. [s]"""
    empty, help_, found = processor_seconds(
        ("-c", EMPTY, "--help"),
        ("-m", "planner", "--help"),
        ("-m", "planner", "search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8"),
        folder=folder,
    )
    return empty, help_, found


def main() -> None:
    """Print the figures."""
    empty, help_, found = start_seconds(ROOT)
    print(f"planner --help over an empty typer application's help: {help_ / empty:.2f} (at most 1.2)")
    print(
        f"planner search llama2-7b --hardware dgx-h100 --gpus 8: {found:.2f} s (under 1), "
        f"{found / empty:.1f} times the empty application's help (at most 8)"
    )


if __name__ == "__main__":
    main()
