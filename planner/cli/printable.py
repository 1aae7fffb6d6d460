"""Lines on standard error, in which names and keys of files command no terminal."""

from __future__ import annotations

import shutil
import sys
from textwrap import fill

from planner.printable import printable


def to_stderr(line: str) -> None:
    """Write a line on standard error, on a terminal without broken words."""
    told = printable(line)
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        told = "\n".join(
            fill(one, width, break_long_words=False, break_on_hyphens=False) for one in told.splitlines()
        )
    sys.stderr.write(f"{told}\n")
