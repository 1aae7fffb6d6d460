"""Context parallelism."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.rings import RINGS


@dataclass(frozen=True)
class ContextTraits:
    """Context parallelism."""

    ring: str = trait(
        "transformer-engine",
        "Whose code runs attention whose keys and values come from other ranks.",
        name="ring_attention",
        words=RINGS,
    )
    exposed: float = trait(
        0.5,
        "Share of context-parallel messages that no compute hides.",
        unit="-",
        name="cp_exposed",
        up_to=1.0,
    )
    slowdown: float = trait(
        1.2,
        "Time of attention under context parallelism over its share of the whole: smaller calls and "
        "stitching.",
        unit="-",
        name="cp_slowdown",
        above_zero=True,
    )
    by_length: bool = trait(
        False,
        "Whether each document of unequal lengths has as many ranks as its length needs.",
        name="context_by_length",
    )
