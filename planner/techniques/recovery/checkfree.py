"""A lost stage within the pipeline becomes the mean of its neighbours, weighted by their gradients."""

from collections.abc import Iterator

from planner.techniques.recovery._stages import (
    even_layouts,
    even_stages,
    from_both_sides,
    layers_alike,
    whole_stages,
)
from planner.techniques.recovery.family import ENVIRONMENT, WATCHED, Held, Recovery

LEARNING = (0.0, 10.0)
"""Steps of learning that one recovery costs, as its optimizer states are fresh and its weights a mean. No
paper prints them: at the most the time is still by more than 12% below that of redundant computation where a
stage fails by 5 to 10% an hour, as the authors print (arXiv:2506.15461). [-]"""


def _faults(held: Held) -> Iterator[str]:
    yield from layers_alike(held)
    yield from whole_stages(held, 3)
    yield from even_stages(held)


ENTRY = Recovery(
    name="checkfree",
    cite="arXiv:2506.15461",
    level="neighbours",
    pause=WATCHED + ENVIRONMENT,
    faults=_faults,
    cures=lambda held: float(1.0 - 2.0 / held.plan.pp),
    fetched=from_both_sides,
    learning=LEARNING,
    layouts=even_layouts,
    runner=False,
)
