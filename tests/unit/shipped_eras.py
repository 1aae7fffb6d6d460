"""Eras by their names."""

from __future__ import annotations

from collections.abc import Iterable

from planner.calibrate.eras.files import shipped
from planner.calibrate.eras.record import Era, EraProgram


def eras_by_name(programs: Iterable[EraProgram] | None = None) -> dict[str, Era]:
    """Return the eras of some programs, of those that ship where none are given."""
    return {era.name: era for program in programs or shipped() for era in program.eras}
