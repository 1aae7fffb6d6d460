"""DES-LOC: parameters are averaged after the inner steps, moments of Adam three and six times as rarely."""

from typing import Final

from planner.formulas.low_communication import separate_exchanges
from planner.techniques.sync._family import Penalty, Send, Sync, Timing

MOMENTUM: Final = 3.0
"""Periods of the parameters from one average of the first moment to the next. [-]"""
VARIANCE: Final = 6.0
"""The same of the second. [-]"""


def apart(steps: int, layers: int, delay: int) -> Timing:
    """Return the timing of the parameters' period with its share of the moments."""
    models = steps * float(separate_exchanges(float(steps), MOMENTUM * steps, VARIANCE * steps))
    return Timing(float(steps), (Send(models, 0.0),))


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
