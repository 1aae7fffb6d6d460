"""How long the command line takes from a cold start."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.helpers import ROOT, user_environment

EMPTY = "import typer\napp = typer.Typer()\n\n@app.command()\ndef main():\n    'Do nothing.'\n\napp()\n"


def processor_seconds(*arguments: str, folder: Path, repeats: int = 5) -> float:
    """Return the least processor time of a Python process over some repeats. [s]"""
    times = []
    for _ in range(repeats):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=user_environment(folder),
            check=True,
            capture_output=True,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)


def help_ratio(folder: Path) -> float:
    """Return the time of ``planner --help`` over that of an empty typer application's help. [-]"""
    empty = processor_seconds("-c", EMPTY, "--help", folder=folder)
    return processor_seconds("-m", "planner", "--help", folder=folder) / empty


def search_seconds(folder: Path) -> float:
    """Return the time of a search for a 7B model on 8 accelerators. [s]"""
    ask = ("-m", "planner", "search", "llama2-7b", "--hardware", "dgx-h100", "--gpus", "8")
    return processor_seconds(*ask, folder=folder)


def main() -> None:
    """Print the figures."""
    print(f"planner --help over an empty typer application's help: {help_ratio(ROOT):.2f} (at most 1.2)")
    print(f"planner search llama2-7b --hardware dgx-h100 --gpus 8: {search_seconds(ROOT):.2f} s (under 1)")


if __name__ == "__main__":
    main()
