"""Which layers each pipeline rank holds, as counts of each kind of layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, field, replace
from planner.inputs.model import ModelSpec
from planner.numeric import Column, Num
from planner.plan import even_split, prediction_stage
from planner.techniques.recompute.family import RecomputeChoice
from planner.techniques.schedules import Schedule

ENDS = ("embedding", "head", "tied_head", "prediction")
"""Parts beside the layers, each on one rank only."""

ENCODER = "encoder"
"""The encoder whole, on the first stage: no end, since all micro-batches in flight keep its activations."""

Piece = tuple[str, bool]
"""A kind of layer, or an end, and whether the recompute choice applies to it."""


@dataclass(frozen=True)
class Stages:
    """Pipeline ranks of one plan, or the ranks that can decide in each plan of a batch.

    Parameters
    ----------
    counts : mapping
        Layers of each piece; the first axis is the rank, a second one, if any, the plan. [-]
    rank : array
        Pipeline rank, of the same shape. [-]
    crest, crest_again : array, optional
        What the chunks in flight at a rank's peak hold over as many mean chunks, of the same shape: of
        layers, and of those that run again whole and keep their inputs. [-]
    messages, all_messages : mapping
        Messages that a rank takes in for a micro-batch, of the same shape, and those of all ranks, by the
        place of the tier that they come over. [-]
    """

    counts: Mapping[Piece, Column]
    rank: Column
    crest: Num = 1.0
    crest_again: Num = 1.0
    messages: Mapping[int, Column] = field(default_factory=dict)
    all_messages: Mapping[int, Num] = field(default_factory=dict)

    def taken(self, index: NDArray[np.intp]) -> Stages:
        """Return the stages of the plans at ``index`` of the second axis."""
        counts = {piece: column.take(index, axis=1) for piece, column in self.counts.items()}
        crest, again = (
            crest.take(index, axis=1) if isinstance(crest, np.ndarray) else crest
            for crest in (self.crest, self.crest_again)
        )
        messages = {tier: column.take(index, axis=1) for tier, column in self.messages.items()}
        sums = {tier: np.take(count, index) for tier, count in self.all_messages.items()}
        return Stages(counts, self.rank.take(index, axis=1), crest, again, messages, sums)

    def alone(self) -> Stages:
        """Return the stages of a plan of one rank as numbers, with which the same arithmetic is faster."""
        rank: Any = float(self.rank[0])
        counts: dict[Piece, Any] = {piece: float(column[0]) for piece, column in self.counts.items()}
        messages: dict[int, Any] = {tier: float(column[0]) for tier, column in self.messages.items()}
        crest, again = (float(np.asarray(crest)[0]) for crest in (self.crest, self.crest_again))
        return Stages(counts, rank, crest, again, messages, self.all_messages)

    def repeated(self) -> Stages:
        """Return the stages of one plan with a second axis, along which many plans share them."""
        counts = {piece: column[:, np.newaxis] for piece, column in self.counts.items()}
        messages = {tier: column[:, np.newaxis] for tier, column in self.messages.items()}
        crest, again = (np.asarray(crest)[:, np.newaxis] for crest in (self.crest, self.crest_again))
        return Stages(counts, self.rank[:, np.newaxis], crest, again, messages, self.all_messages)


class RankPieces(Counter[Piece]):
    """Pieces of a rank, the crests of its chunks in flight (`crests`) and its messages (`rank_messages`)."""

    crest: float = 1.0
    crest_again: float = 1.0
    messages: Mapping[int, float] = MappingProxyType({})


@lru_cache(maxsize=4096)
def weighted_split(
    weights: tuple[float, ...], parts: int, last: float, first: float = 0.0
) -> tuple[int, ...]:
    """Contiguous split that makes the heaviest part lightest; ``first`` and ``last`` are added to the ends.

    Every part gets at least one layer, where there are as many. Bisection over the heaviest part by greedy
    fills; then, if that is as light, the split that also keeps the other parts even.
    """
    if parts >= len(weights):
        return even_split(len(weights), parts)
    ends = (first, last)
    low, high = max(weights), sum(weights) + first + last
    best = even_split(len(weights), parts)
    for _ in range(40):
        guess = (low + high) / 2
        split = _fill(weights, parts, ends, guess, evenly=False)
        if split is None:
            low = guess
        else:
            best, high = split, guess
    return _fill(weights, parts, ends, high, evenly=True) or best


def _fill(
    weights: Sequence[float], parts: int, ends: tuple[float, float], limit: float, evenly: bool
) -> tuple[int, ...] | None:
    """Fill parts from the end up to ``limit``, or only to the mean of what is left; None if that fails."""
    split: list[int] = []
    first, last = ends
    left, rest = len(weights), sum(weights) + first + last
    for part in range(parts - 1, -1, -1):
        load = (last if part == parts - 1 else 0.0) + (first if part == 0 else 0.0)
        wanted = max(rest / (part + 1), rest - part * limit) if evenly else limit
        taken = 0
        while left > part and (taken == 0 or part == 0 or _takes(load, weights[left - 1], wanted, limit)):
            load += weights[left - 1]
            left -= 1
            taken += 1
        if load > limit * (1 + 1e-12):
            return None
        rest -= load
        split.append(taken)
    return tuple(reversed(split)) if left == 0 else None


def _takes(load: float, weight: float, wanted: float, limit: float) -> bool:
    """Whether a part with ``load`` takes one more layer: towards what is wanted, within the limit."""
    return load + weight <= limit and load + weight / 2 <= wanted


def default_split(model: ModelSpec, parts: int, weights: Mapping[str, float]) -> tuple[int, ...]:
    """Layers of each virtual stage where the plan names none.

    Equal layers are split evenly; unlike ones by ``weights`` of a layer of each kind, ``head`` among them.
    """
    if len(set(model.layers)) == 1:
        return even_split(model.num_layers, parts)
    return weighted_split(tuple(weights[name] for name in model.layers), parts, weights["head"])


def kinds_apart(model: ModelSpec) -> tuple[frozenset[str], ...]:
    """Return sets of kinds of layers that keep alike amounts until backward: one, but each kind of a hybrid.

    The chunks of a hybrid are then held to the kind whose crest is highest, which is never too little.
    """
    if model.recurrents:
        return tuple(frozenset((name,)) for name in model.blocks)
    return (frozenset(model.blocks),)


def rank_counts(
    model: ModelSpec,
    schedule: Schedule,
    degrees: tuple[int, int],
    split: Sequence[int],
    choice: RecomputeChoice,
    apart: bool = False,
) -> list[RankPieces]:
    """Count the pieces of every pipeline rank for one (pp, vpp) and split, of one direction.

    ``apart`` says whether prediction layers stand before a loss alone (`prediction_stage`).
    """
    pp, vpp = degrees
    ranks = [RankPieces() for _ in range(pp)]
    kept: list[tuple[str, ...]] = []
    again: list[tuple[str, ...]] = []
    start = 0
    for chunk, size in enumerate(split):
        rank = ranks[schedule.placement(chunk, pp, vpp)]
        layers = model.layers[start : start + size]
        repeated = _count_chunk(rank, layers, choice.layers)
        start += size
        kept.append(layers[repeated * choice.whole_layer :])
        again.append(layers[:repeated])
    first, last = schedule.placement(0, pp, vpp), schedule.placement(pp * vpp - 1, pp, vpp)
    for chunk, piece, count in end_pieces(model, split, first == last, choice.layers > 0, apart):
        ranks[schedule.placement(chunk, pp, vpp)][piece] += count
    for kinds in kinds_apart(model):
        sizes, inputs = (
            tuple(sum(name in kinds for name in part) for part in parts) for parts in (kept, again)
        )
        whole = crests(schedule, degrees, sizes if any(sizes) else tuple(split))
        repeats = crests(schedule, degrees, inputs) if choice.whole_layer else whole
        for rank, crest, crest_again in zip(ranks, whole, repeats, strict=True):
            rank.crest = max(rank.crest, crest)
            rank.crest_again = max(rank.crest_again, crest_again)
    return ranks


def end_pieces(
    model: ModelSpec, split: Sequence[int], one_rank: bool, again: bool, apart: bool = False
) -> list[tuple[int, Piece, int]]:
    """Return the ends of the model as (chunk, piece, count).

    Prediction layers look tokens up and score them: beside the loss with a table of their own (which counts
    as a further head), apart from it with a copy of the embedding, and the loss's head serves them.

    Parameters
    ----------
    split : sequence of int
        Layers of each virtual stage. [layer]
    one_rank : bool
        Whether the first and the last virtual stage are on one rank.
    again : bool
        Whether the recompute choice applies to layers.
    apart : bool
        Whether prediction layers stand before a loss alone.
    """
    last = len(split) - 1
    tied = model.tied_embeddings and one_rank
    ends: list[tuple[int, Piece, int]] = [
        (0, ("embedding", False), 1),
        (last, ("tied_head" if tied else "head", False), 1),
    ]
    if model.encoder is not None:
        ends.append((0, (ENCODER, False), 1))
    if model.prediction is None:
        return ends
    place, count = prediction_stage(split, True, apart), model.prediction.layers
    ends += [(place, ("prediction", False), count), (place, (model.prediction.block, again), count)]
    if place < last:
        return [*ends, (place, ("embedding", False), 1), (last, ("tied_head", False), count)]
    return [*ends, (last, ("tied_head" if one_rank else "head", False), count)]


def both_ways(ranks: list[RankPieces], schedule: Schedule) -> list[RankPieces]:
    """Return the pieces of every rank, whatever the directions.

    Under a schedule of two a rank holds its own stage and its mirror image's, and half of the micro-batches
    go through each: counts are the mean of both, of which it has `Schedule.weight_copies`.
    """
    if schedule.routes == 1:
        return ranks
    return [_mean_pieces(one, other) for one, other in zip(ranks, reversed(ranks), strict=True)]


def _mean_pieces(one: RankPieces, other: RankPieces) -> RankPieces:
    """Return the mean of what two ranks hold."""
    mean = RankPieces({piece: (one[piece] + other[piece]) / 2 for piece in dict.fromkeys((*one, *other))})
    mean.crest = max(one.crest, other.crest)
    mean.crest_again = max(one.crest_again, other.crest_again)
    tiers = dict.fromkeys((*one.messages, *other.messages))
    mean.messages = {
        tier: (one.messages.get(tier, 0.0) + other.messages.get(tier, 0.0)) / 2 for tier in tiers
    }
    return mean


def whole_ends(stages: Stages) -> Stages:
    """Return the stages with each end that they have a part of as a whole one."""
    counts = {
        piece: np.ceil(column) if piece[0] in ENDS else column for piece, column in stages.counts.items()
    }
    return replace(stages, counts=counts)


def _count_chunk(rank: RankPieces, layers: Sequence[str], again: float) -> int:
    """Count the layers of a chunk on its rank, of which ``again`` run again; return how many here do. [-]"""
    if again in (0.0, math.inf):
        for name, count in Counter(layers).items():
            rank[name, again > 0] += count
        return len(layers) if again else 0
    repeated = 0
    for name in layers:
        recomputed = sum(count for (_, known), count in rank.items() if known) < again
        repeated += recomputed
        rank[name, recomputed] += 1
    return repeated


@lru_cache(maxsize=1024)
def crests(schedule: Schedule, degrees: tuple[int, int], sizes: tuple[int, ...]) -> tuple[float, ...]:
    """Return what chunks of unlike sizes hold at each rank's peak over as many mean chunks, never below 1.

    The sizes are in layers whose activations stay until backward; the peak is that of the rank's own order
    with micro-batches enough to fill the pipeline. A second route mixes the chunks of two ranks and is left
    out.

    Examples
    --------
    Where the first chunk of each rank is the larger one, all of the last rank's three in flight are such:

    >>> from planner.techniques.schedules import SCHEDULES
    >>> crests(SCHEDULES["interleaved-1f1b"], (2, 2), (3, 3, 1, 1))
    (1.3, 1.5)
    """
    pp, vpp = degrees
    homes = [schedule.placement(chunk, pp, vpp) for chunk in range(pp * vpp)]
    held = [[size for size, home in zip(sizes, homes, strict=True) if home == rank] for rank in range(pp)]
    if vpp == 1 or schedule.routes > 1 or all(len(set(one)) == 1 or not any(one) for one in held):
        return (1.0,) * pp
    microbatches = 2 * pp
    orders = schedule.order(pp, vpp, microbatches)
    result = []
    for rank, (order, own) in enumerate(zip(orders, held, strict=True)):
        signs = [{"F": 1, "B": 0}.get(item.kind, -1) * sizes[item.chunk] for item in order]
        flying = float(schedule.in_flight_chunks(pp, vpp, microbatches, rank))
        mean = flying * sum(own) / vpp
        result.append(max(1.0, max(accumulate(signs)) / mean) if mean else 1.0)
    return tuple(result)


def deciding_ranks(ranks: Sequence[RankPieces], in_flight: Column) -> list[int]:
    """Return the ranks that no other one matches in every count, in messages and in what is in flight."""
    deciding: list[int] = []
    flying, again = (in_flight * column for column in crests_of(ranks))
    for rank in sorted(range(len(ranks)), key=lambda rank: (-flying[rank], rank)):
        counts = ranks[rank]
        beaten = any(
            again[other] >= again[rank]
            and all(ranks[other][piece] >= count for piece, count in counts.items())
            and all(ranks[other].messages.get(tier, 0.0) >= count for tier, count in counts.messages.items())
            for other in deciding
        )
        if not beaten:
            deciding.append(rank)
    return deciding


def crests_of(ranks: Sequence[RankPieces]) -> tuple[Column, Column]:
    """Return both crests of every rank. [-]"""
    return np.array([rank.crest for rank in ranks]), np.array([rank.crest_again for rank in ranks])


def stages_of(ranks: Sequence[RankPieces]) -> Stages:
    """Return all ranks of one plan, the first axis being the rank."""
    pieces = sorted({piece for counts in ranks for piece in counts})
    counts = {piece: np.array([float(rank[piece]) for rank in ranks]) for piece in pieces}
    messages = message_table(ranks)
    sums = {tier: float(column.sum()) for tier, column in messages.items()}
    return Stages(counts, np.arange(len(ranks), dtype=float), *crests_of(ranks), messages, sums)


def message_table(ranks: Sequence[RankPieces]) -> dict[int, Column]:
    """Return the messages of every rank by tier; tiers that carry none are left out. [-]"""
    tiers = sorted({tier for rank in ranks for tier in rank.messages})
    return {tier: np.array([rank.messages.get(tier, 0.0) for rank in ranks]) for tier in tiers}


def stage_table(all_ranks: Sequence[Sequence[RankPieces]], deciding: Sequence[list[int]]) -> Stages:
    """Return the deciding ranks of many (pp, vpp), padded by repeating the first one."""
    width = max(map(len, deciding))
    pieces = sorted({piece for ranks in all_ranks for counts in ranks for piece in counts})
    chosen = [picks + picks[:1] * (width - len(picks)) for picks in deciding]
    counts = {
        piece: np.array(
            [
                [float(ranks[pick][piece]) for pick in picks]
                for ranks, picks in zip(all_ranks, chosen, strict=True)
            ]
        ).T
        for piece in pieces
    }
    crest, again = (
        np.array([column[picks] for column, picks in zip(columns, chosen, strict=True)]).T
        for columns in zip(*map(crests_of, all_ranks), strict=True)
    )
    tables = [message_table(ranks) for ranks in all_ranks]
    tiers = sorted({tier for table in tables for tier in table})
    messages = {
        tier: np.array(
            [
                table[tier][picks] if tier in table else [0.0] * width
                for table, picks in zip(tables, chosen, strict=True)
            ]
        ).T
        for tier in tiers
    }
    sums = {tier: np.array([float(np.sum(table.get(tier, 0.0))) for table in tables]) for tier in tiers}
    return Stages(counts, np.array(chosen, dtype=float).T, crest, again, messages, sums)
