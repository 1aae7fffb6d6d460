"""DES-LOC: parameters are averaged after the inner steps, moments of Adam three and six times as rarely."""

from typing import Final

from planner.techniques.sync.family import Penalty, Send, Sync, SyncTiming

MOMENTUM: Final = 3
"""Periods of the parameters from one average of the first moment to the next. [-]"""
VARIANCE: Final = 6
"""The same of the second. [-]"""


def apart(steps: int, layers: int, delay: int) -> SyncTiming:
    """Return the timing of the parameters in each period, and of the moments in some."""
    return SyncTiming(float(steps), (Send(1.0, 0.0), Send(1.0, 0.0, MOMENTUM), Send(1.0, 0.0, VARIANCE)))


ENTRY = Sync(
    name="des-loc",
    cite="arXiv:2505.22549",
    sends="all parameters after the inner steps, moments after 3 and 6 times as many, in ring all-reduces",
    hidden="nothing: all wait",
    timing=apart,
    penalty=Penalty("range", "in-context score 51.6 against 53.8 of data parallelism at 1.7B",
                    "arXiv:2505.22549"),
    aliases=("desloc",),
)  # fmt: skip
