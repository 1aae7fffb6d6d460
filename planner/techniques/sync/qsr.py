"""Quadratic synchronization rule: local steps whose number grows as the learning rate falls.

The coefficient is such that the inner steps asked for are those at the highest rate of a cosine schedule that
ends at a tenth of it.
"""

from typing import Final

from planner.formulas.low_communication import cosine_rounds
from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming

LEAST_RATE: Final = 0.1
"""Last learning rate over the highest. [-]"""


def growing(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the mean timing over a cosine schedule."""
    return SyncTiming(1.0 / float(cosine_rounds(float(steps), LEAST_RATE)), (Send(1.0, 0.0),))


ENTRY = Sync(
    name="qsr",
    cite="arXiv:2310.14423",
    sends="all parameters after inner steps that grow as the rate falls, in a ring all-reduce",
    hidden="nothing: all wait",
    timing=growing,
    penalty=Penalty("unknown", "vision only: +0.84% and +1.16% accuracy of ViT-B", "arXiv:2310.14423"),
)
