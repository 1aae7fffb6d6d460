"""What the planner knows of a pipeline schedule: facts, closed forms and the executable order.

Symbols: ``pp`` pipeline ranks, ``vpp`` chunks of the model on each rank, ``microbatches`` in one step. The
model is cut into ``pp * vpp`` chunks; a rank's whole slice is ``vpp`` of them. A bidirectional schedule sends
half of the micro-batches along a second route with its own copies of the chunks, numbered after those of the
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass
from planner.formulas.pipeline import Pipe, round_microbatches
from planner.numeric import Num, minimum, where

Mask = bool | NDArray[np.bool_]
"""One truth value for each plan."""

Kind = Literal["F", "B", "W", "BW"]
"""Forward, input gradient, weight gradient, and the two gradients in one pass."""


class Pass(NamedTuple):
    """One visit of a micro-batch to a chunk."""

    kind: Kind
    chunk: int
    microbatch: int


Orders = tuple[tuple[Pass, ...], ...]
"""For each rank the passes that it runs, in their order."""


@dataclass(frozen=True)
class PassTimes:
    """Times of one micro-batch through one chunk, and of a message; a searched order depends on them."""

    forward: float = 1.0
    input_gradient: float = 1.0
    weight_gradient: float = 1.0
    """Times of the passes of one chunk. [s]"""
    hop: float = 0.0
    """Latency of a message to another rank, which occupies nobody. [s]"""
    kept_share: float = 1.0
    """Share of a chunk's activations that stay between input and weight gradient. [-]"""


UNIT: Final = PassTimes()
"""All passes take one unit, messages are free."""

Degrees = Callable[[Num, Num, Num], Num]
"""Function of (pp, vpp, microbatches)."""

PerRank = Callable[[Num, Num, Num, Num], Num]
"""Function of (pp, vpp, microbatches, rank)."""

Seconds = Callable[[Pipe], Num]
"""Function of the pipeline's symbols, times of whole slices."""

Condition = Callable[[Pipe], Mask]
"""As `Seconds`; true where a closed form claims to hold."""


@dataclass(frozen=True)
class InRounds:
    """A closed form that also takes the micro-batches of a round, made one of the pipeline: `Seconds`."""

    formula: Callable[[Pipe, Num], Num]
    """Takes the pipeline and ``per_round``, micro-batches that go through a chunk before the next starts."""
    per_round: Callable[[Num, Num], Num] = round_microbatches
    """Those micro-batches, from (pp, microbatches)."""

    def __call__(self, pipe: Pipe) -> Num:
        """Return what the formula gives."""
        return self.formula(pipe, self.per_round(pipe.pp, pipe.m))


class OrderOf(Protocol):
    """Function that writes a schedule's order out."""

    def __call__(self, pp: int, vpp: int, microbatches: int, times: PassTimes = UNIT) -> Orders: ...


@dataclass(frozen=True)
class ScheduleRule:
    """A condition on the degrees without which a schedule cannot run."""

    text: str
    """The rule in words, as the reason given where it is broken."""
    test: Callable[[Num, Num, Num], Mask]
    """True for the (pp, vpp, microbatches) that keep it; scalars or arrays."""


def loop_rank(chunk: int, pp: int, vpp: int) -> int:
    """Return the rank of a chunk when every pass over the ranks starts again at rank 0."""
    return chunk % pp


def v_rank(chunk: int, pp: int, vpp: int) -> int:
    """Return the rank of a chunk when the direction turns at either end: down, up, down."""
    down = chunk // pp % 2 == 0
    return chunk % pp if down else pp - 1 - chunk % pp


def two_way_rank(chunk: int, pp: int, vpp: int) -> int:
    """Return the rank of a chunk when the second route visits the ranks of the first in mirrored places."""
    route, place = divmod(chunk, pp * vpp)
    rank = v_rank(place, pp, vpp)
    return rank if route == 0 else pp - 1 - rank


def loop_messages(pp: Num, vpp: Num, microbatches: Num) -> Num:
    """Count the sends of one micro-batch, both ways, over all ranks, with chunks placed in a loop."""
    return 2.0 * (vpp * pp - 1) * minimum(1.0, pp - 1)


def v_messages(pp: Num, vpp: Num, microbatches: Num) -> Num:
    """Count the sends of one micro-batch, both ways, over all ranks, with chunks in a V: turns are local."""
    return 2.0 * vpp * (pp - 1)


def one(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Return 1: one copy, one version."""
    return 1.0 + 0.0 * (pp * vpp * microbatches * rank)


def none(pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
    """Return 0: nothing waits for its weight gradient."""
    return 0.0 * (pp * vpp * microbatches * rank)


def every_pass(pp: Num, vpp: Num, microbatches: Num) -> Num:
    """Return the micro-batches: what is sharded is gathered for every pass."""
    return microbatches


def no_chunks(vpp: Num) -> Num:
    """Return 0: all activations stay on the device."""
    return 0


def always(pipe: Pipe) -> Mask:
    """Say that a closed form holds for all degrees and times."""
    return np.greater_equal(pipe.m, 1)


def shortest_weight_gradient(pipe: Pipe) -> Mask:
    """Say that the weight gradient is the shortest pass."""
    return np.less_equal(pipe.W, np.minimum(pipe.F, pipe.B))


def weight_gradient_hides(pipe: Pipe, messages: Num) -> Mask:
    """Say that the weight gradient is the shortest pass, and as long as ``messages`` of the messages."""
    return np.logical_and(shortest_weight_gradient(pipe), np.less_equal(messages * pipe.c, pipe.W))


@dataclass(frozen=True)
class Schedule:
    """One way to order the passes of a pipeline."""

    name: str
    """The contract's name."""
    aliases: tuple[str, ...]
    """Other spellings, PyTorch's among them."""
    cite: str
    """Where it is described."""
    splits_backward: bool
    """Whether input and weight gradient are passes of their own."""
    rules: tuple[ScheduleRule, ...]
    """What the degrees must keep."""
    bubble_seconds: Seconds
    """Makespan of one step minus the busiest rank's work, closed form. [s]"""
    in_flight_chunks: PerRank
    """Chunk activations held at the peak, each until its weight gradient (or whole backward) is done; in a V
    exact on the peak rank from ``2 pp`` micro-batches on, else an upper bound. [-]"""
    order: OrderOf
    """The executable order."""
    span_bubble: Seconds | None = None
    """Longest time from first start to last end on one rank, minus its work: what a step costs where the next
    step starts without a barrier, and the Zero Bubble papers' bubble; None where it is the other. [s]"""
    placement: Callable[[int, int, int], int] = loop_rank
    """Rank of a chunk from (chunk, pp, vpp)."""
    messages: Degrees = loop_messages
    """Sends of one micro-batch between ranks, both ways, over all ranks. [-]"""
    awaiting_weight_chunks: PerRank = none
    """How many of `in_flight_chunks` hold only what the weight gradient needs. [-]"""
    weight_copies: float = 1.0
    """Weights, gradients and optimizer states that a rank holds, over its share 1 / pp of the model; ranks
    that hold the same stage reduce their gradients with one another. [-]"""
    weight_versions: PerRank = one
    """Versions of the weights kept for micro-batches in flight. [-]"""
    rounds: Degrees = every_pass
    """How often a step gathers a chunk's sharded weights, once forward and once backward, and reduces its
    gradients: for every pass, or for as many as run through the chunk one after the other. [-]"""
    routes: int = 1
    """Directions in which micro-batches run."""
    offloaded_chunks: Callable[[Num], Num] = no_chunks
    """Chunks of each rank, its first, whose activations wait on the host between forward and backward, from
    ``vpp``. [-]"""
    on_device_chunks: PerRank | None = None
    """Of `in_flight_chunks`, those that are on the device at most, where copies keep up with the passes; all
    of them where nothing goes to the host. [-]"""
    additive: bool = False
    """Whether a step takes the sum over the stages and m - 1 times the slowest, for any shares of passes."""
    flushes: bool = True
    """Whether a step ends with an empty pipeline; if not, the closed form is the steady state."""
    holds: Condition = always
    """Where the closed forms are exact or within 1% of the makespan."""

    @property
    def span_bubble_seconds(self) -> Seconds:
        """The closed form of the span bubble. [s]"""
        return self.span_bubble or self.bubble_seconds

    @property
    def hosts(self) -> bool:
        """Whether activations of some chunks wait on the host."""
        return self.offloaded_chunks is not no_chunks

    def chunks_alive(self, pp: Num, vpp: Num, microbatches: Num, rank: Num) -> Num:
        """Return `in_flight_chunks` of a training step: one where there is one stage, whatever the schedule.

        Runners accumulate gradients there without a schedule.
        """
        return where(pp * vpp > 1, self.in_flight_chunks(pp, vpp, microbatches, rank), 1.0)

    def legal(self, pp: Num, vpp: Num, microbatches: Num) -> Mask:
        """Say for which degrees the schedule can run, scalar or array."""
        mask: Mask = np.greater_equal(pp * vpp * microbatches, 1)
        for rule in self.rules:
            mask = np.logical_and(mask, rule.test(pp, vpp, microbatches))
        return mask

    def supports(self, pp: int, vpp: int, microbatches: int) -> tuple[str, ...]:
        """Return why the schedule cannot run these degrees; empty where it can."""
        return tuple(
            f"{self.name} needs {rule.text}, found pp {pp}, vpp {vpp}, {microbatches} micro-batches"
            for rule in self.rules
            if not rule.test(pp, vpp, microbatches)
        )

    def rank_sends(self, pp: int, vpp: int) -> tuple[float, ...]:
        """Return the messages that each rank sends for a micro-batch, both ways, in the mean over its routes.

        Examples
        --------
        >>> from planner.techniques.schedules import SCHEDULES
        >>> SCHEDULES["interleaved-1f1b"].rank_sends(3, 2), SCHEDULES["zb-v"].rank_sends(3, 2)
        ((3.0, 4.0, 3.0), (2.0, 4.0, 2.0))
        """
        sends, ranks = [0.0] * pp, self.chunk_ranks(pp, vpp)
        for chunk in range(len(ranks) - 1):
            if (chunk + 1) % (pp * vpp) and ranks[chunk] != ranks[chunk + 1]:
                sends[ranks[chunk]] += 1.0 / self.routes
                sends[ranks[chunk + 1]] += 1.0 / self.routes
        return tuple(sends)

    def chunk_ranks(self, pp: int, vpp: int) -> tuple[int, ...]:
        """Return the rank of every chunk, those of a second route after those of the first."""
        return tuple(self.placement(chunk, pp, vpp) for chunk in range(self.routes * pp * vpp))


def _is_whole(count: Num) -> Mask:
    return np.equal(np.floor(count), count)


ONE_CHUNK: Final = ScheduleRule("one chunk per rank (vpp 1)", lambda pp, vpp, m: np.equal(vpp, 1))
TWO_CHUNKS: Final = ScheduleRule("two chunks per rank (vpp 2)", lambda pp, vpp, m: np.equal(vpp, 2))
MANY_CHUNKS: Final = ScheduleRule(
    "two or more chunks per rank (vpp)", lambda pp, vpp, m: np.greater_equal(vpp, 2)
)
EVEN_RANKS: Final = ScheduleRule(
    "an even number of ranks (pp)", lambda pp, vpp, m: np.equal(np.mod(pp, 2), 0)
)
EQUAL_ROUNDS: Final = ScheduleRule(
    "micro-batches that divide into equal rounds of at least pp",
    lambda pp, vpp, m: _is_whole(round_microbatches(pp, m)),
)
WHOLE_UNITS: Final = ScheduleRule(
    "micro-batches in multiples of pp", lambda pp, vpp, m: np.equal(np.mod(m, pp), 0)
)
