"""LASP: the state travels from rank to rank; each reads it, adds its part and passes it on.

Chunks alone and what they add to the state are computed by all ranks at once; the product of queries with
the state one rank after the other, as algorithm 2 has it between receiving and sending. Two papers measured
the method against LASP-2 and do not agree: 15.2% more time of a step on 64 ranks (arXiv:2502.07563), 3.2
times that of a layer on 128 (arXiv:2507.01004). This price lies between them.
"""

from planner.formulas.relay import relay_seconds
from planner.numeric import Num
from planner.techniques.states.family import StateMethod, one_state


def turns(cp: Num) -> Num:
    """Ranks before the last one, whose products of queries with the state it waits for. [-]"""
    return cp - 1.0


ENTRY = StateMethod(
    name="lasp",
    cite="arXiv:2404.02882",
    seconds=relay_seconds,
    sent_states=one_state,
    held_states=one_state,
    turns=turns,
    aliases=("lasp-1", "lasp1"),
)
