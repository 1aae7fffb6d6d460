"""Which layers each pipeline rank holds, as counts of each kind of layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, field, replace
from planner.inputs.layers import PIECES
from planner.inputs.model import ModelSpec
from planner.numeric import Column, Num
from planner.plan import prediction_stage
from planner.remembered import remembered
from planner.techniques.recompute.family import RecomputeChoice
from planner.techniques.schedules import Schedule

ENDS = PIECES[:-1]
"""Parts beside the layers, each on one rank only."""

ENCODER = PIECES[-1]
"""The encoder whole, on the first stage: no end, since all micro-batches in flight keep its activations."""

Piece = tuple[str, bool]
"""A kind of layer, or an end, and whether the recompute choice applies to it."""


@dataclass(frozen=True)
class Stages:
    """Pipeline ranks of one plan, or the ranks that can decide in each plan of a batch."""

    counts: Mapping[Piece, Column]
    """Layers of each piece; the first axis is the rank, a second one, if any, the plan. [-]"""
    rank: Column
    """Pipeline rank, of the same shape. [-]"""
    crest: Num = 1.0
    crest_again: Num = 1.0
    """What the chunks in flight at a rank's peak hold over as many mean chunks, of the same shape: of layers,
    and of those that run again whole and keep their inputs. [-]"""
    messages: Mapping[int, Column] = field(default_factory=dict)
    all_messages: Mapping[int, Num] = field(default_factory=dict)
    """Messages that a rank takes in for a micro-batch, of the same shape, and those of all ranks, by the
    place of the tier that they come over. [-]"""

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

    def copied(self) -> RankPieces:
        """Return a copy, the crests with it."""
        other = RankPieces()
        dict.update(other, self)
        other.crest, other.crest_again, other.messages = self.crest, self.crest_again, self.messages
        return other


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
    again = choice.layers, choice.whole_layer
    return [rank.copied() for rank in _rank_counts(model, schedule, degrees, tuple(split), again, apart)]


@remembered(most=4096, records=2)
def _rank_counts(
    model: ModelSpec,
    schedule: Schedule,
    degrees: tuple[int, int],
    split: tuple[int, ...],
    recomputed: tuple[float, bool],
    apart: bool,
) -> list[RankPieces]:
    """Count them, where ``recomputed`` says how many layers of a stage run again, and whether whole."""
    (pp, vpp), (repeats, whole_layer) = degrees, recomputed
    ranks = [RankPieces() for _ in range(pp)]
    homes = [schedule.placement(chunk, pp, vpp) for chunk in range(pp * vpp)]
    kept, again, start = list[tuple[str, ...]](), list[tuple[str, ...]](), 0
    for home, size in zip(homes, split, strict=False):
        layers = model.layers[start : start + size]
        repeated = _count_chunk(ranks[home], layers, repeats)
        start += size
        kept.append(layers[repeated * whole_layer :])
        again.append(layers[:repeated])
    for chunk, piece, count in end_pieces(model, split, homes[0] == homes[-1], repeats > 0, apart):
        ranks[homes[chunk]][piece] += count
    for kinds in kinds_apart(model) if vpp > 1 else ():
        sizes, inputs = (
            tuple(sum(count for name, count in _kinds_in(part) if name in kinds) for part in parts)
            for parts in (kept, again)
        )
        whole = crests(schedule, degrees, sizes if any(sizes) else split)
        crests_again = crests(schedule, degrees, inputs) if whole_layer else whole
        for rank, crest, crest_again in zip(ranks, whole, crests_again, strict=True):
            rank.crest = max(rank.crest, crest)
            rank.crest_again = max(rank.crest_again, crest_again)
    return ranks


def end_pieces(
    model: ModelSpec, split: Sequence[int], one_rank: bool, again: bool, apart: bool = False
) -> list[tuple[int, Piece, int]]:
    """Return the ends of the model as (chunk, piece, count).

    Prediction layers look tokens up and score them: beside the loss with one table for all of them (which
    counts as a further head), apart from it with a copy of the embedding, and the loss's head serves them.

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
    if one_rank or count == 1:
        return [*ends, (last, ("tied_head" if one_rank else "head", False), count)]
    return [*ends, (last, ("head", False), 1), (last, ("tied_head", False), count - 1)]


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


@lru_cache(maxsize=1024)
def _kinds_in(layers: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple(Counter(layers).items())


def _count_chunk(rank: RankPieces, layers: tuple[str, ...], again: float) -> int:
    """Count a chunk's layers on its rank, of which ``again`` run again; return how many here do. [-]"""
    if again in (0.0, math.inf):
        for name, count in _kinds_in(layers):
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
    result, weights = [], np.array(sizes)
    for rank, ((signs, chunks), own) in enumerate(zip(_signed_passes(schedule, degrees), held, strict=True)):
        flying = float(schedule.in_flight_chunks(pp, vpp, PASSES_OF_A_RANK * pp, rank))
        mean = flying * sum(own) / vpp
        most = int(np.max(np.cumsum(signs * weights[chunks])))
        result.append(max(1.0, most / mean) if mean else 1.0)
    return tuple(result)


PASSES_OF_A_RANK = 2
"""Micro-batches that fill a pipeline, over its ranks. [-]"""

SIGNS = {"F": 1, "B": 0}
"""What a pass does to what its rank holds: takes a chunk's activations, keeps them, or else lets them go."""


@lru_cache(maxsize=256)
def _signed_passes(
    schedule: Schedule, degrees: tuple[int, int]
) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp]], ...]:
    """Return of every rank what each pass of a filled pipeline does to what it holds, and of which chunk."""
    orders = schedule.order(*degrees, PASSES_OF_A_RANK * degrees[0])
    return tuple(
        (
            np.array([SIGNS.get(item.kind, -1) for item in order], dtype=np.intp),
            np.array([item.chunk for item in order], dtype=np.intp),
        )
        for order in orders
    )


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


def stage_alone(rank: RankPieces) -> Stages:
    """Return the only rank of a plan as numbers, with which the same arithmetic is faster."""
    counts: dict[Piece, Any] = {piece: float(rank[piece]) for piece in sorted(rank)}
    messages: dict[int, Any] = {tier: float(count) for tier, count in sorted(rank.messages.items())}
    number: Any = 0.0
    return Stages(counts, number, rank.crest, rank.crest_again, messages, dict(messages))


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
