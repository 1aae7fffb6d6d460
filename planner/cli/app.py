"""The command ``planner``: commands found by name and loaded when called, and the one handler of errors."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import traceback
import warnings
from typing import Final

from planner.cli.commands import run
from planner.cli.interrupts import Terminated
from planner.cli.variables import DEBUG
from planner.errors import PlannerError
from planner.printable import printable

INTERNAL: Final = 70
INTERRUPTED: Final = 130
TERMINATED: Final = 143


def main() -> None:
    """Run the command line and exit with the code of the contract."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # else it reads what every package installed
    gc.set_threshold(200_000)  # a start makes many objects that stay: fewer passes over them
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    try:
        try:
            _silence_warnings()
            run(ended)
        finally:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        sys.exit(ended(error))


def _open_closed_streams() -> None:
    """Let a command whose output or messages nobody takes, as ``>&-`` says, run to its end."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.devnull, "w")))


def _silence_warnings() -> None:
    """Keep warnings of libraries from users, unless Python was asked to show them."""
    if not sys.warnoptions and not os.environ.get(DEBUG):
        warnings.simplefilter("ignore")


def ended(error: BaseException) -> int:
    """Tell the user in one message why the command ended, and return the exit code."""
    if isinstance(error, PlannerError):
        sys.stderr.write(message(error))
        return error.exit_code
    if isinstance(error, Terminated):
        sys.stderr.write("terminated\n")
        return TERMINATED
    if isinstance(error, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
        sys.stderr.write(f"error: the answer could not be written: {error.strerror}\n")
        return INTERNAL
    if os.environ.get(DEBUG):
        traceback.print_exception(error)
    words = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    sys.stderr.write(f"internal error ({words}); please report it, with what {DEBUG}=1 shows\n")
    return INTERNAL


def message(error: Exception) -> str:
    """Return the text for standard error: one fault a line, counted where there are several."""
    lines = printable(str(error)).splitlines() or [type(error).__name__]
    if len(lines) == 1:
        return f"error: {lines[0]}\n"
    return "\n".join([f"error: {len(lines)} faults", *(f"  {line}" for line in lines)]) + "\n"
