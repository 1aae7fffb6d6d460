"""Files of users: plans known as such, results written whole or not at all."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem

NAME_BYTES: Final = 255
"""The longest name of a file on the usual file systems. [byte]"""

PLAN_FORMAT: Final = "planner/plan/"
"""What the format of a plan file begins with."""


def is_plan_file(path: Path) -> bool:
    """Whether a path is a file that says it is a plan, or standard input."""
    if str(path) == "-":
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as stream:
            return f"format: {PLAN_FORMAT}".encode() in stream.read(4096)
    except (OSError, ValueError):
        return False


def check_place(path: Path | None, force: bool, option: str) -> None:
    """Refuse, before anything is computed for it, a file that could not be written; a pipe or device can be.

    Raises
    ------
    InputError
        If it exists and ``force`` is false, or if it is a folder, or its own folder is none, or its name is
        one that no file can have.
    """
    if path is None:
        return
    try:
        if _is_stream(path):
            return
        exists, folder, place = path.exists(), path.is_dir(), path.parent.is_dir()
        name = len(os.fsencode(path.name)) > NAME_BYTES
    except (OSError, ValueError) as error:
        raise _unwritable(path, option, error) from None
    if exists and not force:
        raise InputError(Problem(option, str(path), "a file that does not exist yet, or --force"))
    faults = ((folder, "it is a folder"), (not place, "no such folder"), (name, "File name too long"))
    for wrong, reason in faults:
        if wrong:
            raise InputError(Problem(option, str(path), f"a place that can be written ({reason})"))


def _is_stream(path: Path) -> bool:
    """Whether something is written to in its place: a terminal, a pipe, a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _unwritable(path: Path, option: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return InputError(Problem(option, str(path), f"a place that can be written ({reason})"))


def write_whole(path: Path, text: str, force: bool, option: str = "--out") -> None:
    """Write a file beside its place and move it there, so that no interrupt leaves it half-written.

    A link stays one, to the new file; a pipe or a device is written to as it is. A new file has the rights
    that the user's umask gives, one that is replaced keeps its own.

    Parameters
    ----------
    path : Path
        Where it goes.
    text : str
        What it holds.
    force : bool
        Whether a file that exists is replaced.
    option : str
        Where the user named the file.

    Raises
    ------
    InputError
        If it exists and ``force`` is false, or if it cannot be written.
    """
    check_place(path, force, option)
    part = None
    try:
        if _is_stream(path):
            path.write_text(text, encoding="utf-8")
            return
        place = path.resolve()
        part = place.with_name(f".planner-{os.urandom(8).hex()}")
        with part.open("x", encoding="utf-8") as stream:
            stream.write(text)
        if place.exists():
            part.chmod(stat.S_IMODE(place.stat().st_mode))
        part.replace(place)
    except BaseException as error:
        if part is not None:
            part.unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError):
            raise _unwritable(path, option, error) from None
        raise
