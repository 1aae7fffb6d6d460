"""Sections of a DeepSpeed JSON that take no further keys, and the kinds of value that their fields take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from planner.errors import nearest
from planner.runtimes.imports.field_kinds import field_kinds
from planner.runtimes.imports.schemas import is_count, is_integer, is_number, is_switch
from planner.runtimes.imports.sheet import Sheet

TABLE: Final = "deepspeed_fields.txt"
ALIASES: Final = {"bfloat16": "bf16"}
OLDER: Final = ("zero_optimization.mics_shard_size", "zero_optimization.mics_hierarchical_params_gather")
"""Keys that releases before the table's have."""

OPEN_BEFORE: Final = ("fp16", "bf16")
"""Sections in which older releases pass over what they do not know."""


HELD: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "i": (is_integer, "a whole number"),
    "c": (is_count, "a whole number, 0 or more"),
    "f": (is_number, "a number"),
    "b": (is_switch, "true or false"),
    "s": (lambda value: isinstance(value, str), "text"),
}


def check_sections(sheet: Sheet) -> None:
    """Note a fault for each key that its section lacks, and each value that its field does not take.

    ``auto`` is left to the trainer.
    """
    tables = field_kinds(TABLE)
    for key, value in sheet.values.items():
        for section, name, place in _steps(key):
            known = tables.get(section)
            if known is None or place in OLDER:
                continue
            if name not in known and section in OPEN_BEFORE:
                sheet.notes.append(f"{place}: no key of DeepSpeed 0.19; older releases pass over it")
            elif name not in known:
                sheet.fault(place, "no key of it", "one that the runner has", nearest(name, known) or "")
            elif place == key and (wrong := _misfit(f"{section}.{name}", known[name], value)):
                sheet.fault(key, "null" if value is None else repr(value), wrong)
    if older := [key for key in OLDER if key in sheet.values]:
        sheet.notes.append(f"{', '.join(older)}: of releases before 0.19, which alone have MiCS")


def _steps(key: str) -> Iterator[tuple[str, str, str]]:
    """Yield each section that a key stands in, the name below it, and the path of that name."""
    parts = key.split(".")
    for depth in range(1, len(parts)):
        section = ".".join(parts[:depth])
        yield ALIASES.get(section, section), parts[depth], f"{section}.{parts[depth]}"


def _misfit(field: str, kind: str, value: Any) -> str:
    """Return what a field takes instead of a value; nothing where it takes the value."""
    if value is None:
        return "" if "?" in kind else "a value, or no such key"
    if field in field_kinds(TABLE):
        return "" if isinstance(value, Mapping) else "a section"
    if value == "auto":
        return ""
    holds, words = HELD.get(kind[:1], (lambda _: True, ""))
    return "" if holds(value) else words
