"""An all-to-all of the communication library: each copy of a token by itself, permuted before and after."""

from planner.formulas.collectives import all_to_all_seconds
from planner.numeric import Num
from planner.techniques.dispatchers.family import Dispatcher, Sent


def sent(nbytes: Num, copies: Num, experts: int, ranks: Num, neighbours: bool) -> Sent:
    """Return that tokens are permuted to one row for each expert, then sent."""
    return all_to_all_seconds, {"nbytes": nbytes * copies}


ENTRY = Dispatcher(
    name="all-to-all",
    cite="Megatron-LM d98e8a64: core/transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher",
    sent=sent,
    permutes=True,
    waits_for_counts=True,
)
