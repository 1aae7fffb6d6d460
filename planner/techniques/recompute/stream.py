"""StreamBP: a layer runs again and backward in parts of the sequence, one after another."""

import math

from planner.techniques.recompute.family import Recompute, RecomputeChoice
from planner.units import is_whole

USUAL_PARTS = 3
"""Parts of a sequence that the authors' code suggests (github.com/Ledzy/StreamBP). [-]"""


def choice(argument: str) -> RecomputeChoice:
    """Take the parts of a sequence; as many as its authors suggest where none are given."""
    if argument and not (is_whole(argument) and int(argument) > 1):
        raise ValueError("stream, or stream:D with D parts of a sequence, two or more")
    parts = float(argument or USUAL_PARTS)
    return RecomputeChoice(whole_layer=True, modules=frozenset(), layers=math.inf, parts=parts)


ENTRY = Recompute(name="stream", cite="arXiv:2506.03077", choice=choice, aliases=("streambp",))
