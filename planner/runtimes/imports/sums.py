"""Switches and whole numbers of a sheet as the checks of all runners read them."""

from __future__ import annotations

from planner.runtimes.imports.sheet import Sheet
from planner.units import is_whole


def is_set(sheet: Sheet, key: str) -> bool:
    """Return whether a switch is on, without counting it as understood."""
    value = sheet.values.get(key)
    return value is not None and str(value).lower() not in ("false", "0", "no", "auto")


def number_of(sheet: Sheet, key: str) -> int | None:
    """Return a whole number, or None where there is none."""
    text = str(sheet.values.get(key)).strip()
    return int(text) if is_whole(text.lstrip("-")) and len(text) <= 18 else None
