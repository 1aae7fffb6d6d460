"""Fused kernels (DeepEP, HybridEP): a token once to each node, forwarded there, and back as one row."""

from planner.formulas.dispatch import dispatch_seconds, neighbouring_ranks, neighbours_seconds
from planner.numeric import Num
from planner.techniques.dispatchers.family import Dispatcher, Sent


def sent(nbytes: Num, copies: Num, experts: int, ranks: Num, neighbours: bool) -> Sent:
    """Return that a token goes once to each rank, or to each node, that has some of its experts."""
    if neighbours:
        return neighbours_seconds, {"nbytes": nbytes, "copies": neighbouring_ranks(copies, experts, ranks)}
    return dispatch_seconds, {"nbytes": nbytes, "copies": copies}


ENTRY = Dispatcher(
    name="fused",
    cite="https://github.com/deepseek-ai/DeepEP; arXiv:2412.19437, sec. 3.2.2",
    sent=sent,
    own_kernels=True,
    sums=True,
    fp32_scores=True,
)
