"""Messages between the stages of a pipeline: how many a rank takes in, and which tier each comes over."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.communication import beside_message_seconds, exposed_message_share, message_bytes
from planner.cost.traffic.rank_order import Order, order_of_degrees
from planner.formulas.collectives import Tier
from planner.formulas.messages import shared_seconds
from planner.numeric import Num, Truth, floor, maximum, minimum, where
from planner.plan import Plan, prediction_stage

Placement = Callable[[int, int, int], int]
"""Rank of a chunk from (chunk, pp, vpp)."""

MessageCounts = Mapping[int, Num]
"""Messages by the place of the tier that they come over, innermost first. [-]"""


def crosses(domain: float, one: float, other: float, stride: float, first: float = 0.0) -> bool:
    """Whether some rank of a stage and its like in another stage lie in different domains.

    Parameters
    ----------
    domain : float
        Consecutive ranks that a domain joins. [-]
    one, other : float
        The stages; each has ``stride`` consecutive ranks, and the message goes from like to like. [-]
    stride : float
        Ranks of a stage. [-]
    first : float
        The first rank of the pipeline. [-]

    Examples
    --------
    Stages of six in nodes of eight: 0 and 1 are joined by rank 0 to 6, but not 2 to 8.

    >>> crosses(8.0, 0.0, 1.0, 6.0), crosses(8.0, 0.0, 1.0, 4.0)
    (True, False)
    """
    start, last = min(one, other) * stride + first, (max(one, other) + 1.0) * stride - 1.0 + first
    return one != other and floor(start / domain) != floor(last / domain)


def first_ranks(domain: float, block: float) -> Sequence[float]:
    """Return where pipelines of ``block`` consecutive ranks begin in a domain; 0 for one over all ranks. [-]

    >>> list(first_ranks(8.0, 6.0)), list(first_ranks(8.0, 0.0))
    ([0, 2, 4, 6], [0.0])
    """
    if not block or math.isinf(domain):
        return [0.0]
    return range(0, int(domain), math.gcd(int(domain), int(block)))


def message_tier(tiers: Sequence[Tier], one: float, other: float, stride: float, block: float = 0.0) -> int:
    """Return the place of the tier of messages between two stages, that of the worst pair of ranks.

    Parameters
    ----------
    tiers : sequence of Tier
        From the innermost to the outermost.
    one, other : float
        The stages, each of ``stride`` consecutive ranks; a rank sends to its like. [-]
    stride : float
        Ranks of a stage. [-]
    block : float
        Ranks of a pipeline whose stages lie side by side; 0 for one over all ranks. [-]

    Examples
    --------
    Stages of three in nodes of eight: ranks 6 to 8 straddle, so that both their messages leave a node.

    >>> inner, outer = Tier("a", 8, 450e9, 0.0, 450e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)
    >>> [message_tier([inner, outer], stage, stage + 1.0, 3.0) for stage in (0.0, 1.0, 2.0, 3.0)]
    [0, 1, 1, 0]
    """
    joined = (
        place
        for place, tier in enumerate(tiers)
        if not any(
            crosses(tier.domain, one, other, stride, first) for first in first_ranks(tier.domain, block)
        )
    )
    return next(joined, len(tiers) - 1)


def chunk_tiers(
    placement: Placement, degrees: tuple[int, int], chunks: range, tiers: Sequence[Tier], order: Order
) -> tuple[int | None, ...]:
    """Return the tier of the message from each chunk to the next; None where both are on one rank.

    The tier is that of the slowest pair of ranks.
    """
    homes = [placement(chunk, *degrees) for chunk in (*chunks, chunks[-1])]
    return tuple(
        None if one == other else message_tier(tiers, float(one), float(other), *order)
        for one, other in pairwise(homes)
    )


@lru_cache(maxsize=4096)
def rank_messages(
    placement: Placement,
    degrees: tuple[int, int],
    tiers: tuple[Tier, ...],
    order: Order,
    widths: tuple[float, ...] = (),
) -> tuple[Mapping[int, float], ...]:
    """Return the messages that each rank takes in for a micro-batch, by tier: two for each chunk.

    As in a played step, the first chunk's forward and the last one's backward are counted as if they had the
    message beside them, but over a link that ranks share, which one message of a pass can fill. A second
    route passes the same neighbours in the other direction. What stays on a rank, where a V turns, is no
    message. ``widths`` are those of what each chunk sends (`message_widths`), 1 where there are none.
    """
    pp, vpp = degrees
    if pp == 1:
        return ({},)
    chunks = pp * vpp
    crossed = chunk_tiers(placement, degrees, range(chunks), tiers, order)
    counts: tuple[dict[int, float], ...] = tuple({} for _ in range(pp))
    for chunk in range(chunks):
        mine = counts[placement(chunk, pp, vpp)]
        for wanted in (chunk - 1, chunk):
            boundary = min(max(wanted, 0), chunks - 2)
            tier = crossed[boundary]
            if tier is not None and (wanted == boundary or not tiers[tier].shared):
                mine[tier] = mine.get(tier, 0.0) + (widths[boundary] if widths else 1.0)
    return counts


def message_widths(case: Case, split: Sequence[int]) -> tuple[float, ...]:
    """Return the tensors of the hidden size in the message that each virtual stage sends to the next. [-]

    Prediction layers apart from the loss send it the model's own output and theirs
    (Megatron-LM, ``multi_token_prediction.py``, `MultiTokenPredictionBlock.forward`).
    """
    extra = case.model.prediction.layers if case.model.prediction else 0
    place = prediction_stage(split, extra > 0, case.prediction_apart)
    apart = place < len(split) - 1
    return tuple(1.0 + extra * (apart and stage == place) for stage in range(len(split)))


def pipeline_messages(
    case: Case, pp: int, vpp: int, split: Sequence[int] = (), order: Order | None = None
) -> tuple[Mapping[int, float], ...]:
    """Return the messages that each rank of a pipeline over the whole job takes in, by tier.

    Where the order of ranks depends on more than the stages and is not given, as if they were nearest.
    """
    order = order or order_of_degrees(case, float(pp))
    widths = message_widths(case, split) if case.model.prediction is not None and split else ()
    return rank_messages(case.schedule.placement, (pp, vpp), case.tiers, order, widths)


def each_message_seconds(case: Case, plan: Plan, tokens: Num, tier: Tier) -> Num:
    """Seconds that a message over a tier keeps the rank that it comes to. [s]

    Of a link that all ranks of a stage share nothing is hidden: it may take longer than the passes.
    """
    way = shared_seconds(message_bytes(case, plan, tokens), tier, case.job.gpus / plan.pp)
    share = 1.0 if tier.shared else exposed_message_share(case, plan)
    return way * share + beside_message_seconds(case, plan, tokens)


UNLIKE: Final = 0.05
"""Share of a stage's time by which messages may differ where stages count as alike: closed forms of equal
stages are then within 1.4% of played steps, one round of micro-batches included. [-]"""


def are_unlike(case: Case, plan: Plan, messages: MessageCounts, even: Num) -> Truth:
    """Whether far and near messages make stages of equal layers unlike, so that some of the bubble is hidden.

    Parameters
    ----------
    messages : mapping
        Messages of all ranks by tier. [-]
    even : Num
        Mean time of a stage for a micro-batch. [s]
    """
    if len(messages) < 2:
        return np.False_
    tokens = case.rank_tokens(plan)
    dearest: Num = 0.0
    cheapest: Num = np.inf
    for place, count in messages.items():
        once, used = each_message_seconds(case, plan, tokens, case.tiers[place]), np.greater(count, 0.0)
        dearest = maximum(dearest, where(used, once, 0.0))
        cheapest = minimum(cheapest, where(used, once, np.inf))
    return 2.0 * plan.vpp * (dearest - cheapest) > UNLIKE * even


def hop_seconds(case: Case, plan: Plan, messages: MessageCounts) -> Num:
    """Exposed seconds of messages that each micro-batch costs a rank, or all of them, by their counts. [s]"""
    tokens = case.rank_tokens(plan)
    seconds: Num = 0.0
    for place, count in messages.items():
        seconds = seconds + count * each_message_seconds(case, plan, tokens, case.tiers[place])
    return seconds
