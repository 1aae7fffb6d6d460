"""Files of users: plans known as such, results written whole or not at all."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.errors import InputError, Problem

if TYPE_CHECKING:
    from planner.report.plan_file import PlanFile

STANDARD_INPUT: Final = Path("standard input")
"""What messages call it; users write ``-``."""

PLAN_FORMAT: Final = "planner/plan/"
"""What the format of a plan file begins with."""


def is_plan_file(path: Path) -> bool:
    """Whether a path is a file that says it is a plan, or standard input."""
    if str(path) == "-":
        return True
    try:
        return (
            path.is_file()
            and f"format: {PLAN_FORMAT}" in path.read_text(encoding="utf-8", errors="replace")[:4096]
        )
    except OSError:
        return False


def read_plan(path: Path, text: str | None = None) -> PlanFile:
    """Return what a plan file says, or standard input for ``-``: ``text``, where it has been read.

    Raises
    ------
    InputError
        If it cannot be read or is wrong, all faults at once.
    """
    from planner.report.plan_file import read_plan_file

    if str(path) != "-":
        return read_plan_file(path)
    return read_plan_file(STANDARD_INPUT, standard_input() if text is None else text)


def standard_input() -> str:
    """Return the text of standard input.

    Raises
    ------
    InputError
        If it is not UTF-8.
    """
    try:
        return sys.stdin.read().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise InputError(Problem(str(STANDARD_INPUT), "bytes that are no text", "UTF-8 text")) from None


def check_place(path: Path | None, force: bool, option: str) -> None:
    """Refuse, before anything is computed for it, a file that could not be written; a pipe or device can be.

    Raises
    ------
    InputError
        If it exists and ``force`` is false, or if it is a folder, or its own folder is none.
    """
    if path is None or _is_stream(path):
        return
    if path.exists() and not force:
        raise InputError(Problem(option, str(path), "a file that does not exist yet, or --force"))
    for wrong, reason in ((path.is_dir(), "it is a folder"), (not path.parent.is_dir(), "no such folder")):
        if wrong:
            raise InputError(Problem(option, str(path), f"a place that can be written ({reason})"))


def _is_stream(path: Path) -> bool:
    """Whether something is written to in its place: a terminal, a pipe, a device."""
    return path.exists() and not path.is_file() and not path.is_dir()


def write_whole(path: Path, text: str, force: bool, option: str = "--out") -> None:
    """Write a file beside its place and move it there, so that an interrupt leaves nothing half-written.

    A link stays one, to the new file; a pipe or a device is written to as it is.

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
    part = None
    try:
        check_place(path, force, option)
        if _is_stream(path):
            path.write_text(text, encoding="utf-8")
            return
        place = path.resolve()
        with tempfile.NamedTemporaryFile("w", dir=place.parent, encoding="utf-8", delete=False) as stream:
            part = Path(stream.name)
            stream.write(text)
        part.chmod(0o644)
        part.replace(place)
    except BaseException as error:
        if part is not None:
            part.unlink(missing_ok=True)
        if isinstance(error, OSError | ValueError):
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(Problem(option, str(path), f"a place that can be written ({reason})")) from None
        raise
