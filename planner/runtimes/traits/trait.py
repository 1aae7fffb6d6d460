"""How one trait is declared: default, meaning, unit and bounds, in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
    kinds: Mapping[str, Any]
    """The records that its words name; their fields may be traits of the same subject."""
    brings: Mapping[str, str]
    """Flat name to field of these traits: choosing a kind sets them to its own values."""

    def brought(self, word: str) -> dict[str, Any]:
        """Return the values that a kind brings, by field."""
        return {own: getattr(self.kinds[word], own) for own in self.brings.values()}


def trait(
    default: float | bool | str,
    meaning: str,
    unit: str = "",
    name: str | tuple[str, ...] = "",
    above_zero: bool = False,
    up_to: float = LARGEST,
    least: float = 0.0,
    words: tuple[str, ...] | Mapping[str, Any] = (),
) -> Any:
    """Declare a trait, a field of a record in the stack.

    ``name``: its flat name, if another, and former ones; ``words``: what it may be, or a table of kinds.
    """
    flat, *former = (name,) if isinstance(name, str) else name
    known = {"meaning": meaning, "unit": unit, "name": flat, "above_zero": above_zero, "up_to": up_to}
    known |= {"least": least, "words": words, "aliases": tuple(former)}
    return field(default=default, metadata=known)


def declared(subject: str, record: Any) -> Iterator[Trait]:
    """Yield the traits that a subject's record declares."""
    kinds = get_type_hints(type(record))
    names = {one.name: one.metadata["name"] or one.name for one in fields(record)}
    for one in fields(record):
        known, kind = {**one.metadata, "name": names[one.name]}, kinds[one.name]
        if get_origin(kind) is Literal:
            known["words"], kind = get_args(kind), str
        table = known["words"] if isinstance(known["words"], Mapping) else {}
        shared = {f.name for entry in table.values() for f in fields(entry)} - {one.name}
        known |= {"words": tuple(known["words"]), "kinds": table}
        known["brings"] = {flat: own for own, flat in names.items() if own in shared}
        yield Trait(subject=subject, field=one.name, kind=kind, default=getattr(record, one.name), **known)
