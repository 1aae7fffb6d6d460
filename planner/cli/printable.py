"""Lines on standard error, in which names and keys of files command no terminal."""

from __future__ import annotations

import sys

from planner.printable import printable


def to_stderr(line: str) -> None:
    """Write a line on standard error."""
    sys.stderr.write(f"{printable(line)}\n")
