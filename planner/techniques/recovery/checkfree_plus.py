"""CheckFree whose first and last stages have twins in their neighbours, with copies of embedding and head."""

from collections.abc import Iterator

from planner.techniques.recovery._stages import (
    even_layouts,
    even_stages,
    from_both_sides,
    layers_alike,
    whole_stages,
)
from planner.techniques.recovery.checkfree import LEARNING
from planner.techniques.recovery.family import ENVIRONMENT, WATCHED, Held, Recovery


def _faults(held: Held) -> Iterator[str]:
    yield from layers_alike(held)
    yield from whole_stages(held, 4)
    yield from even_stages(held)


ENTRY = Recovery(
    name="checkfree-plus",
    cite="arXiv:2506.15461",
    level="neighbours",
    pause=WATCHED + ENVIRONMENT,
    faults=_faults,
    fetched=from_both_sides,
    learning=LEARNING,
    layouts=even_layouts,
    runner=False,
    aliases=("checkfree+",),
)
