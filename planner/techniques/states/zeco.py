"""ZeCO: the state travels as in LASP, but in blocks, so that all links carry some of it at once (All-Scan).

Its blocks lie along d_k, so it needs a decay that is diagonal there. Scaling the states of chunks by what
arrives costs under 1% of the scan (sec. 3.3) and is not counted.
"""

from planner.formulas.relay import pipelined_relay_seconds
from planner.techniques.states.family import StateMethod, one_state

ENTRY = StateMethod(
    name="zeco",
    cite="arXiv:2507.01004",
    seconds=pipelined_relay_seconds,
    sent_states=one_state,
    held_states=one_state,
    aliases=("all-scan",),
)
