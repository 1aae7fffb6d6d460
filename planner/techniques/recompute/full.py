"""Full recompute: a layer keeps its input and runs forward again before backward."""

import math

from planner.techniques.recompute.family import Recompute, RecomputeChoice
from planner.units import is_whole


def choice(argument: str) -> RecomputeChoice:
    """Take the number of layers of each stage that recompute; all of them where none is given."""
    if argument and not (is_whole(argument) and int(argument) > 0):
        raise ValueError("full, or full:N with N layers of each stage")
    return RecomputeChoice(whole_layer=True, modules=frozenset(), layers=float(argument or math.inf))


ENTRY = Recompute(name="full", cite="arXiv:1604.06174", choice=choice, aliases=("every-layer",))
