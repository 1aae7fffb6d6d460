"""How one trait is declared: default, meaning, unit and bounds, in one place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Final, get_type_hints

LARGEST: Final = 1e15


@dataclass(frozen=True)
class Trait:
    """One trait, as users know it.

    Parameters
    ----------
    name : str
        Flat name, as ``--set``, eras, fitted constants and plan files have it.
    subject, field : str
        Its record in the stack, and its name there.
    kind : type
        Of its values, a ``Literal`` where they are words.
    default : float, bool or str
        Its value in today's Megatron-core.
    meaning, unit : str
        What it says, and in what; no unit where it is no number.
    above_zero : bool
        Whether it may not be zero.
    up_to : float
        The most that it may be.
    """

    name: str
    subject: str
    field: str
    kind: Any
    default: float | bool | str
    meaning: str
    unit: str
    above_zero: bool
    up_to: float


def trait(
    default: float | bool | str,
    meaning: str,
    unit: str = "",
    name: str = "",
    above_zero: bool = False,
    up_to: float = LARGEST,
) -> Any:
    """Declare a trait: a field of a record in the stack; ``name`` is its flat name, if another."""
    known = {"meaning": meaning, "unit": unit, "name": name, "above_zero": above_zero, "up_to": up_to}
    return field(default=default, metadata=known)


def declared(subject: str, record: Any) -> Iterator[Trait]:
    """Yield the traits that a subject's record declares."""
    kinds = get_type_hints(type(record))
    for one in fields(record):
        known = dict(one.metadata) | {"name": one.metadata["name"] or one.name}
        yield Trait(
            subject=subject, field=one.name, kind=kinds[one.name], default=getattr(record, one.name), **known
        )
