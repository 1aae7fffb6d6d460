"""How one trait is declared: default, meaning, unit and bounds, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from planner.dataclasses import dataclass, field, fields

LARGEST: Final = 1e15


@dataclass(frozen=True)
class Trait:
    """One trait, as users know it."""

    name: str
    """Flat name, as ``--set``, eras, fitted constants and plan files have it."""
    subject: str
    field: str
    """Its record in the stack, and its name there."""
    kind: type[Any]
    """Of its values: ``float``, ``bool``, or ``str`` where it is one of some words."""
    default: float | bool | str
    """Its value in today's Megatron-core."""
    meaning: str
    unit: str
    """What it says, and in what; no unit where it is no number."""
    words: tuple[str, ...]
    """What it may be, where it is a word."""
    above_zero: bool
    """Whether it may not be zero."""
    up_to: float
    """The most that it may be."""
    least: float
    """The least that it may be."""
    aliases: tuple[str, ...]
    """Names that it had."""


def trait(
    default: float | bool | str,
    meaning: str,
    unit: str = "",
    name: str | tuple[str, ...] = "",
    above_zero: bool = False,
    up_to: float = LARGEST,
    least: float = 0.0,
    words: tuple[str, ...] = (),
) -> Any:
    """Declare a trait, a field of a record in the stack; ``name``: the flat one if another, and old ones."""
    flat, *former = (name,) if isinstance(name, str) else name
    known = {"meaning": meaning, "unit": unit, "name": flat, "above_zero": above_zero, "up_to": up_to}
    known |= {"least": least, "words": words, "aliases": tuple(former)}
    return field(default=default, metadata=known)


def declared(subject: str, record: Any) -> Iterator[Trait]:
    """Yield the traits that a subject's record declares."""
    kinds = get_type_hints(type(record))
    for one in fields(record):
        known, kind = dict(one.metadata), kinds[one.name]
        known["name"] = known["name"] or one.name
        if get_origin(kind) is Literal:
            known["words"], kind = get_args(kind), str
        yield Trait(subject=subject, field=one.name, kind=kind, default=getattr(record, one.name), **known)
