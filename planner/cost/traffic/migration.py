"""What a job's state moves when its plan changes: who holds what, who needs what, over which link it comes.

A rank holds, of the pieces of its pipeline stage, one interval: that of its place in tensor parallelism, and
within it that of its shard. What it needs and does not hold comes from another accelerator of its node, from
another node, or, where nobody is left that holds it, from a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass
from planner.inputs.model import Experts
from planner.numeric import Column
from planner.plan import Plan, even_split
from planner.techniques.schedules import SCHEDULES

Ranks = NDArray[np.intp]

MOST_PAIRS = 128
"""Nodes up to which each pair is matched accelerator by accelerator before nodes are. [-]"""

ROUNDING = 1e-12
"""Share of all bytes below which a difference of intervals is rounding. [-]"""


@dataclass(frozen=True)
class Holding:
    """Who holds one kind of state: dense or experts, weights or optimizer."""

    nbytes: Column
    """Bytes of each piece of the model: embedding, layers, head. [byte]"""
    stages: Column
    """Whether a pipeline stage (rows) has a piece (columns), 0 or 1."""
    stage: Column
    low: Column
    high: Column
    """Of each rank its stage, and the interval of each of the stage's pieces that it holds. [-]"""

    def held(self) -> Column:
        """Return the bytes that each rank holds. [byte]"""
        held: Column = (self.stages @ self.nbytes)[self.stage.astype(int)] * (self.high - self.low)
        return held


def holdings(answer: Estimate) -> list[Holding]:
    """Return who holds what under a plan, ranks counted along tp, then cp, dp and pp."""
    plan, model = answer.plan, answer.job.model
    case = case_of(plan, answer.job, answer.runtime)
    stages = _stages(answer)
    ranks = np.arange(answer.job.gpus)
    per_stage = answer.job.gpus // int(plan.pp)
    stage, place = ranks // per_stage, ranks % per_stage
    tp, replica = place % int(plan.tp), place // int(plan.tp)
    expert, spare = place % int(plan.ep * plan.etp), place // int(plan.ep * plan.etp)
    routed = np.array([_expert_params(answer, layer) for layer in range(-1, model.num_layers + 1)])
    whole = np.array([model.embedding_params, *(model.block_params(name) for name in model.layers), 0.0])
    whole[-1] += model.params - whole.sum()
    found = []
    for params, index, parts, copy, ranks_of in (
        (whole - routed, tp, plan.tp, replica, plan.dp * plan.cp),
        (routed, expert, plan.ep * plan.etp, spare, plan.expert_dp),
    ):
        if not params.any():
            continue
        shards = max(1, round(float(ranks_of) * _sharded(plan)))
        for nbytes, level in ((case.weight_bytes, 3), (case.optimizer_bytes, 1)):
            split = shards if plan.zero >= level else 1
            low = (index + (copy % split) / split) / float(parts)
            width = 1.0 / (float(parts) * split)
            found.append(Holding(params * nbytes, stages, stage.astype(float), low, low + width))
    return found


def _sharded(plan: Plan) -> float:
    """Return the share of the replicas over which states are spread. [-]"""
    return float(plan.zero_shards / (plan.dp * plan.cp)) if plan.zero else 1.0


def _expert_params(answer: Estimate, layer: int) -> float:
    """Return the routed experts' parameters of a layer; -1 is the embedding. [element]"""
    model = answer.job.model
    if not 0 <= layer < model.num_layers:
        return 0.0
    ffn = model.blocks[model.layers[layer]].ffn
    return float(ffn.experts * ffn.expert_params(model.hidden)) if isinstance(ffn, Experts) else 0.0


def _stages(answer: Estimate) -> Column:
    """Return which pieces each pipeline rank has: its layers, the embedding first and the head last."""
    plan, layers = answer.plan, answer.job.model.num_layers
    pp, vpp = int(plan.pp), int(plan.vpp)
    split = plan.stage_layers or even_split(layers, pp * vpp)
    homes = [SCHEDULES[plan.schedule].placement(chunk, pp, vpp) for chunk in range(pp * vpp)]
    found = np.zeros((pp, layers + 2))
    done = 0
    for home, count in zip(homes, split, strict=False):
        found[home, 1 + done : 1 + done + count] = 1.0
        done += count
    found[homes[0], 0] = found[homes[-1], -1] = 1.0
    if answer.job.model.tied_embeddings:
        found[homes[-1], 0] = 1.0
    return found


@dataclass(frozen=True)
class Move:
    """What moves between two plans."""

    old: list[Holding]
    new: list[Holding]
    """Who held what, and who needs what."""
    per_node: int
    """Accelerators of a node. [-]"""
    left: int
    """Accelerators, the first ones, that still hold their part; those of the other nodes are lost. [-]"""

    @property
    def ranks(self) -> int:
        """Ranks of the new plan. [-]"""
        return len(self.new[0].stage)

    @cached_property
    def common(self) -> list[Column]:
        """Bytes of the pieces that an old and a new stage share, for each kind. [byte]"""
        return [(one.stages * one.nbytes) @ two.stages.T for one, two in zip(self.old, self.new, strict=True)]

    def overlap(self, old: Ranks, new: Ranks) -> Column:
        """Return the bytes that old ranks (rows) hold of what new ranks (columns) need. [byte]"""
        total = np.zeros((len(old), len(new)))
        for one, two, common in zip(self.old, self.new, self.common, strict=True):
            high = np.minimum(one.high[old][:, None], two.high[new][None, :])
            low = np.maximum(one.low[old][:, None], two.low[new][None, :])
            pairs = common[one.stage[old].astype(int)][:, two.stage[new].astype(int)]
            total += pairs * np.maximum(0.0, high - low)
        return total

    def _nodes(self, ranks: int) -> list[Ranks]:
        return [
            np.arange(first, min(first + self.per_node, ranks)) for first in range(0, ranks, self.per_node)
        ]

    @cached_property
    def seats(self) -> Ranks:
        """Accelerator on which each new rank sits; those from `left` on are fresh.

        Nodes are matched so that most stays where it is, and then the accelerators of each: a node's ranks
        stay together, since tensor parallelism needs its links.
        """
        old, new = self._nodes(self.left), self._nodes(self.ranks)
        fits = np.zeros((len(old), len(new)))
        by_rank = max(len(old), len(new)) <= MOST_PAIRS
        for row, mine in enumerate(old):
            for column, its in enumerate(new):
                pairs = self.overlap(mine, its)
                fits[row, column] = _best(pairs)[1] if by_rank else np.trace(pairs)
        taken = dict(zip(*[side.tolist() for side in _matched(fits)][::-1], strict=True))
        seats, fresh = np.full(self.ranks, -1), self.left
        for column, its in enumerate(new):
            mine = old[taken[column]] if column in taken else np.array([], dtype=int)
            rows, columns = _best(self.overlap(mine, its))[0] if len(mine) else (mine, mine)
            seats[its[columns]] = mine[rows]
            free = [seat for seat in mine if seat not in seats[its]]
            for rank in its:
                if seats[rank] < 0:
                    seats[rank], fresh = (free.pop(0), fresh) if free else (fresh, fresh + 1)
        return seats

    @cached_property
    def parts(self) -> Column:
        """Bytes that each new rank has, gets inside its node, gets from others, and that nobody has left."""
        found = np.zeros((self.ranks, 4))
        mates = [
            range(first, min(first + self.per_node, self.left))
            for first in range(0, self.left, self.per_node)
        ]
        for one, two in zip(self.old, self.new, strict=True):
            cover = _Cover(one, two)
            known: dict[tuple[int, float, float], float] = {}
            for rank, seat in enumerate(map(int, self.seats)):
                key = int(two.stage[rank]), float(two.low[rank]), float(two.high[rank])
                left = seat < self.left
                own = cover.of([seat] if left else [], *key)
                inside = cover.of(mates[seat // self.per_node] if left else [], *key)
                if key not in known:
                    known[key] = cover.of(range(self.left), *key)
                needed = float(two.stages[key[0]] @ two.nbytes) * (key[2] - key[1])
                found[rank] += (own, inside - own, known[key] - inside, needed - known[key])
        return np.where(found < ROUNDING * found.sum(), 0.0, found)

    @property
    def moved(self) -> float:
        """Bytes that no rank has in place. [byte]"""
        return float(self.parts[:, 1:].sum())

    def seconds(self, fast: float, network: float, storage: float) -> float:
        """Return the time of the move: of the rank that gets most, or of all the ports that send. [s]"""
        if self.moved == 0:
            return 0.0
        inside, outside, gone = self.parts[:, 1], self.parts[:, 2], self.parts[:, 3]
        times = [float(inside.max()) / fast, float(gone.sum()) / storage]
        if outside.any():
            times.append(max(float(outside.max()), float(outside.sum()) / max(1, self.left)) / network)
        return max(times)


class _Cover:
    """How much of what a new rank needs some old ranks hold between them.

    Pieces are taken together where the same old stages hold them; a tied embedding stands on two.
    """

    def __init__(self, old: Holding, new: Holding) -> None:
        self.old = old
        patterns, group = np.unique(old.stages.T, axis=0, return_inverse=True)
        self.holders = [np.flatnonzero(pattern).tolist() for pattern in patterns]
        sizes = np.zeros((len(patterns), len(new.stages)))
        for piece, place in enumerate(group.ravel()):
            sizes[place] += new.stages[:, piece] * old.nbytes[piece]
        self.sizes = sizes
        self._known: dict[Sequence[int], dict[int, list[tuple[float, float]]]] = {}

    def of(self, seats: Sequence[int], stage: int, low: float, high: float) -> float:
        """Return the bytes of an interval of a new stage's pieces that old ranks have between them. [byte]"""
        key = seats if isinstance(seats, range) else tuple(seats)
        if key not in self._known:
            self._known[key] = self._by_stage(seats)
        known, total = self._known[key], 0.0
        for holders, size in zip(self.holders, self.sizes[:, stage], strict=True):
            if size:
                have = [known[old] for old in holders if old in known]
                parts = sorted(part for one in have for part in one) if len(have) > 1 else [*have, []][0]
                total += float(size) * _union(parts, low, high)
        return total

    def _by_stage(self, seats: Sequence[int]) -> dict[int, list[tuple[float, float]]]:
        """Return the intervals of some ranks, each once, by their stage."""
        found: dict[int, set[tuple[float, float]]] = {}
        for seat in seats:
            part = float(self.old.low[seat]), float(self.old.high[seat])
            found.setdefault(int(self.old.stage[seat]), set()).add(part)
        return {stage: sorted(parts) for stage, parts in found.items()}


def _union(intervals: Sequence[tuple[float, float]], low: float, high: float) -> float:
    """Return how much of an interval others cover, they in the order of their beginnings.

    Examples
    --------
    >>> _union([(0.0, 0.5), (0.25, 0.75)], 0.4, 1.0)
    0.35
    """
    covered, reached = 0.0, low
    for begin, end in intervals:
        begin, end = max(begin, reached), min(end, high)
        if end > begin:
            covered, reached = covered + end - begin, end
    return covered


def _matched(worth: Column) -> tuple[Ranks, Ranks]:
    """Return rows and columns of the assignment that is worth most."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(worth, maximize=True)
    return np.asarray(rows), np.asarray(columns)


def _best(worth: Column) -> tuple[tuple[Ranks, Ranks], float]:
    """Return the assignment that is worth most, and its worth."""
    rows, columns = _matched(worth)
    return (rows, columns), float(worth[rows, columns].sum())


def move_between(old: Estimate, new: Estimate, left: int | None = None) -> Move:
    """Return what moves from one plan to another, where ``left`` accelerators of the old one are left."""
    per_node = old.job.hardware.pool.gpus_per_node
    return Move(holdings(old), holdings(new), per_node, old.job.gpus if left is None else left)
