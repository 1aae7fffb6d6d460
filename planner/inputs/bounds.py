"""Quantities of a hardware profile with the bounds that physics gives them."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, Field

from planner.inputs.record import ByteRate, Bytes, FlopRate, Seconds, Share, Sourced, Watts

LONGEST: Final = 1.0
"""Latency that no link between accelerators has. [s]"""


def _more_than_zero(value: Sourced) -> Sourced:
    if value <= 0:
        raise ValueError("more than zero")
    return value


def _at_most_all(value: Sourced) -> Sourced:
    if not 0 < value <= 1:
        raise ValueError("a share above 0 and at most 1, such as 0.8 or 80%")
    return value


def _short(value: Sourced) -> Sourced:
    if value > LONGEST:
        raise ValueError(f"at most {LONGEST:g} s")
    return value


def _share(value: Sourced) -> Sourced:
    if value <= 0:
        raise ValueError("a share above 0, such as 0.8 or 80%")
    return value


def _of_some_precision(table: dict[str, Sourced]) -> dict[str, Sourced]:
    if not table or not all(table.values()):
        raise ValueError("the dense peak of at least one precision, more than zero")
    return table


Peaks = Annotated[dict[str, FlopRate], AfterValidator(_of_some_precision)]
Size = Annotated[Bytes, AfterValidator(_more_than_zero)]
Rate = Annotated[ByteRate, AfterValidator(_more_than_zero)]
Efficiency = Annotated[Share, AfterValidator(_at_most_all)]
Reached = Annotated[Share, AfterValidator(_share)]
Delay = Annotated[Seconds, AfterValidator(_short)]
Power = Annotated[Watts, AfterValidator(_more_than_zero)]
Capability = Annotated[float, Field(gt=0, le=100)]
