"""Plans that commands are given: a file, or standard input."""

from __future__ import annotations

from pathlib import Path

from planner.inputs.bounded import STANDARD_INPUT
from planner.inputs.yaml_file import read_text
from planner.report.plan_file import PlanFile, read_plan_file


def read_plan(path: Path, text: str | None = None) -> PlanFile:
    """Return what a plan file says, or standard input for ``-``: ``text``, where it has been read.

    Raises `InputError` if it cannot be read or is wrong, all faults at once.
    """
    if str(path) != "-":
        return read_plan_file(path)
    return read_plan_file(STANDARD_INPUT, read_text(path) if text is None else text)
