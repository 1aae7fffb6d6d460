"""CheckFree whose first and last stages have twins in their neighbours, with copies of embedding and head."""

from collections.abc import Iterator

from planner.dataclasses import replace
from planner.techniques.recovery import checkfree
from planner.techniques.recovery._stages import even_stages, layers_alike, whole_stages
from planner.techniques.recovery.family import Held, Recovery


def _faults(held: Held) -> Iterator[str]:
    yield from layers_alike(held)
    yield from whole_stages(held, 4)
    yield from even_stages(held)


ENTRY = replace(
    checkfree.ENTRY,
    name="checkfree-plus",
    aliases=("checkfree+",),
    faults=_faults,
    cures=Recovery.cures,
)
