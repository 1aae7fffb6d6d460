"""Which splits of a layer's operators are legal, and which collectives they need: derived, not listed.

Two rules make all of it: an operator whose contracted index is split writes a partial sum; one whose free
index is split writes a result split there, and reads every tensor with that index split likewise. What stands
between two operators is a collective. The cheapest choice for a layer is found by branch and bound.

References
----------
.. [1] Y. Xu et al., "GSPMD: General and Scalable Parallelization for ML Computation Graphs,"
   arXiv:2105.04663, 2021, sec. 3: contracting and free dimensions; sec. 4.5: resharding.
.. [2] J. Yuan et al., "OneFlow," arXiv:2110.15032, 2021, sec. 3.1: split, broadcast, partial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from planner.cost.layer.einsums import Einsum
from planner.dataclasses import dataclass, replace

WHOLE: Final = "whole"
PARTIAL: Final = "partial"
"""States of a tensor on a group of ranks; every other state is the index along which it is split."""

Axis = Literal["tensor", "sequence", "context", "expert"]

ENDS: Final[Mapping[Axis, str]] = {"tensor": WHOLE, "sequence": "t", "context": "t", "expert": "t"}
"""What the residual stream is around a layer, for each way to use a group of ranks; ``sequence`` is tensor
parallelism that splits the rest along tokens."""

SAME: Final = {"k": "t", "s": "t"}
"""Indices that run over tokens under another name."""


@dataclass(frozen=True)
class ShardingChoice:
    """One split of an operator."""

    index: str
    """The index that is split, empty where every rank does all of it."""
    reads: tuple[str, ...]
    """State of each tensor that it reads."""
    weight: str
    """State of the weights, empty without any."""
    writes: str
    """State of the result."""


@dataclass(frozen=True)
class Collective:
    """What stands between two operators: ``sent`` elements leave each of the ranks. [element]"""

    kind: str
    tensor: str
    before: str
    sent: float


@dataclass(frozen=True)
class Derived:
    """The cheapest choices of a layer's operators, and the collectives between them."""

    choices: Mapping[str, ShardingChoice]
    collectives: tuple[Collective, ...]

    @property
    def sent(self) -> float:
        """Elements that one rank sends forward. [element]"""
        return sum(one.sent for one in self.collectives)


def legal_choices(one: Einsum) -> Iterator[ShardingChoice]:
    """Yield every legal split of an operator, and none at all."""
    yield _choice(one, "")
    for index in one.indices:
        if index not in one.whole:
            yield _choice(one, index)


def _choice(one: Einsum, index: str) -> ShardingChoice:
    def state(indices: str) -> str:
        return _named(index) if index and index in indices else WHOLE

    contracted = index and index not in one.writes
    return ShardingChoice(
        index,
        tuple(state(indices) for _, indices in one.reads),
        state(one.weight) if one.weight else "",
        PARTIAL if contracted else state(one.writes),
    )


def _named(index: str) -> str:
    return SAME.get(index, index)


def collective(before: str, after: str, elements: float, ranks: float) -> tuple[str, float] | None:
    """Return the collective that turns one state of a tensor into another, and what a rank sends.

    None where no such step exists: nothing becomes a partial sum. [element]
    """
    if before == after or (before == WHOLE and after != PARTIAL):
        return "", 0.0
    if after == PARTIAL:
        return None
    share = (ranks - 1) / ranks
    if before == PARTIAL:
        if after == WHOLE:
            return "all-reduce", 2 * share * elements
        return "reduce-scatter", share * elements
    if after == WHOLE:
        return "all-gather", share * elements
    return "all-to-all", share * elements / ranks


def _allowed(one: Einsum, choice: ShardingChoice, axis: Axis) -> bool:
    """Whether a choice is of the kind that an axis is for; what can be divided is.

    Tensor parallelism splits every weight that may be split, and between two of them heads or inner width;
    with the sequence, the rest along tokens. Context parallelism leaves weights whole and divides all
    arithmetic; experts divide their own weights by expert.
    """
    if axis == "expert":
        return choice.index == "e" if "e" in one.weight else _named(choice.index) in ("t", "e")
    if axis == "context":
        return choice.index != "" and choice.weight in ("", WHOLE)
    if any(index not in one.whole for index in one.weight):
        return choice.weight != WHOLE
    inner = [index for index in "hf" if index in one.indices and index not in one.whole]
    if inner:
        return choice.index in inner
    return _named(choice.index) == ("t" if axis == "sequence" else "")


ROUTED: Final = ("permute", "experts_in", "experts_activation", "experts_out", "unpermute")
"""Operators of routed experts, whose ranks are a group of their own."""


AROUND_ROUTED: Final = ("norm_1", "residual_mlp")
"""Operators beside them, which have nothing else to read where no expert is shared."""


def operators_of(einsums: Sequence[Einsum], axis: Axis) -> tuple[Einsum, ...]:
    """Return the operators of a layer that an axis divides: routed experts alone, or all but these."""
    routed = [one for one in einsums if one.name in ROUTED]
    if axis == "expert":
        first = [replace(one, reads=(("x", one.reads[0][1]),)) for one in routed[:1]]
        return (*first, *routed[1:])
    if not routed or axis == "context":
        return tuple(einsums)
    gone = {*ROUTED} if any(one.name == "shared_experts_in" for one in einsums) else {*ROUTED, *AROUND_ROUTED}
    kept = [one for one in einsums if one.name not in gone]
    return tuple(replace(one, reads=tuple(read for read in one.reads if read[0] not in gone)) for one in kept)


def derive(einsums: Sequence[Einsum], axis: Axis, ranks: float) -> Derived | None:
    """Return the choices that send least forward, the first found among equal ones; None where none is legal.

    Parameters
    ----------
    einsums : sequence of Einsum
        The operators of a layer in their order.
    axis : str
        What the group of ranks is for.
    ranks : float
        How many they are. [-]
    """
    einsums = operators_of(einsums, axis)
    if not einsums:
        return None
    options = [[choice for choice in legal_choices(one) if _allowed(one, choice, axis)] for one in einsums]
    search = _Search(einsums, options, ranks, ENDS[axis])
    search.walk(0, {"x": ENDS[axis]}, 0.0, [])
    if search.best is None:
        return None
    chosen = dict(zip((one.name for one in einsums), search.best, strict=True))
    return Derived(chosen, tuple(search.messages(search.best)))


class _Search:
    """Branch and bound over the operators of a layer in their order."""

    def __init__(
        self, einsums: Sequence[Einsum], options: Sequence[Sequence[ShardingChoice]], ranks: float, end: str
    ) -> None:
        self.einsums, self.options, self.ranks, self.end = einsums, options, ranks, end
        self.best: list[ShardingChoice] | None = None
        self.least = float("inf")

    def walk(self, place: int, states: dict[str, str], sent: float, taken: list[ShardingChoice]) -> None:
        """Try every choice of the operator at ``place`` and of those after it."""
        if sent >= self.least:
            return
        if place == len(self.einsums):
            last = self.einsums[-1]
            step = collective(taken[-1].writes, self.end, last.elements(last.writes), self.ranks)
            if step is not None and sent + step[1] < self.least:
                self.least, self.best = sent + step[1], list(taken)
            return
        one = self.einsums[place]
        for choice in self.options[place]:
            steps = self._steps(one, choice, states)
            if steps is None:
                continue
            after = states | {one.name: choice.writes}
            more = sum(step.sent for step in steps)
            self.walk(place + 1, after, sent + more, [*taken, choice])

    def messages(self, taken: Sequence[ShardingChoice]) -> Iterator[Collective]:
        """Yield the collectives that choices for all operators need."""
        states = {"x": self.end}
        for one, choice in zip(self.einsums, taken, strict=True):
            yield from self._steps(one, choice, states) or ()
            states[one.name] = choice.writes
        last = self.einsums[-1]
        kind, sent = collective(taken[-1].writes, self.end, last.elements(last.writes), self.ranks) or (
            "",
            0.0,
        )
        if kind:
            yield Collective(kind, last.name, "the next layer", sent)

    def _steps(
        self, one: Einsum, choice: ShardingChoice, states: Mapping[str, str]
    ) -> list[Collective] | None:
        """Return the collectives before an operator: one for each tensor that is not as it is read."""
        found: list[Collective] = []
        for (tensor, indices), wanted in zip(one.reads, choice.reads, strict=True):
            step = collective(states[tensor], wanted, one.elements(indices), self.ranks)
            if step is None:
                return None
            found += [Collective(step[0], tensor, one.name, step[1])] if step[0] else []
        return found
