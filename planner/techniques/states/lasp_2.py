"""LASP-2: one all-gather of the states of all ranks, each of which sums up those before it."""

from collections.abc import Sequence

from planner.formulas.collectives import Tier, ring_seconds
from planner.numeric import Num
from planner.techniques.states.family import StateMethod


def seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    """Seconds of an all-gather of ``nbytes`` from every rank. [s]"""
    return ring_seconds(nbytes * ranks, ranks, stride, tiers)


def sent_states(cp: Num) -> Num:
    """Buffers that a rank sends around the ring of an all-gather. [-]"""
    return cp - 1.0


def held_states(cp: Num) -> Num:
    """Buffers that it holds in the end: those of all. [-]"""
    return 1.0 * cp


ENTRY = StateMethod(
    name="lasp-2",
    cite="arXiv:2502.07563",
    seconds=seconds,
    sent_states=sent_states,
    held_states=held_states,
    aliases=("lasp2",),
)
