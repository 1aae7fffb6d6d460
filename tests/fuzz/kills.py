"""``python -m tests.fuzz.kills COUNT``: end ``planner emit --force`` at random moments.

The folder is the old one, the new one or, after a kill alone, none; SIGTERM leaves nothing beside it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.cli.command import planner
from tests.fuzz.seeds import DENSE

KINDS: Final = (signal.SIGTERM, signal.SIGKILL)


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder; nothing where there is none."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def killed(count: int, folder: Path) -> list[str]:
    """End so many commands, and return what was wrong of each that left something else behind."""
    plans = [folder / "one.yaml", folder / "two.yaml"]
    for plan, batch in zip(plans, ("16", "32"), strict=True):
        planner(*DENSE[:-4], "--global-batch", batch, "--tp", "2", "--save", str(plan))
    wholes = []
    for plan in plans:
        planner("emit", str(plan), "--out", str(folder / "out"), "--force")
        wholes.append(content(folder / "out"))
    started = time.monotonic()
    subprocess.run(_command(plans[0], folder / "out"), check=True, capture_output=True)
    usual, dice = time.monotonic() - started, Random(count)
    wrong = []
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        planner("emit", str(plans[1]), "--out", str(place / "out"))
        kind = KINDS[number % 2]
        # most of the time goes by before the first file is opened
        delay = usual * dice.uniform(0.5, 1.1)
        process = subprocess.Popen(
            _command(plans[0], place / "out"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(delay)
        process.send_signal(kind)
        process.wait()
        found = content(place / "out")
        beside = sorted(path.name for path in place.iterdir() if path.name != "out")
        if found not in wholes and (found or kind == signal.SIGTERM):
            wrong.append(f"{number}: {kind.name} after {delay:.3f} s left {sorted(found)}")
        if kind == signal.SIGTERM and beside:
            wrong.append(f"{number}: SIGTERM after {delay:.3f} s left {beside}")
    return wrong


def _command(plan: Path, out: Path) -> list[str]:
    return [sys.executable, "-m", "planner", "emit", str(plan), "--out", str(out), "--force"]


def main() -> None:
    """End as many commands as asked for; exit 1 where one left something broken."""
    with tempfile.TemporaryDirectory() as folder:
        wrong = killed(int(sys.argv[1]), Path(folder))
    sys.stdout.write("\n".join([*wrong, f"{sys.argv[1]} kills, {len(wrong)} left something broken", ""]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
