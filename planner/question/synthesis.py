"""An order of passes that is asked for: of what pipeline, for which times, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.question.reading import KEYWORDS, Reading, shown
from planner.search.synthesis.hand_made import placements
from planner.search.synthesis.problem import OBJECTIVES, Objective, OrderProblem
from planner.search.synthesis.synthesise import TIME_LIMIT, Synthesis, synthesise
from planner.techniques.schedules.family import PassTimes

MOST_SYNTHESIZED_PASSES: Final = 100_000
"""Passes of all ranks for which an order is made: seconds. [-]"""
MOST_RANKS: Final = 4096
"""Ranks of a bare pipeline. [-]"""
LONGEST: Final = 1e12
"""The longest pass of a bare pipeline, in its unit."""
TIMES: Final = "three or four numbers F,B,W[,P2P], F above zero and none below, such as 1,1,1 or 2,2,1,0.1"


@dataclass(frozen=True)
class SynthesisRequest:
    """What the user asks to make."""

    pp: int
    vpp: int
    microbatches: int
    """Ranks, chunks per rank, micro-batches."""
    times: tuple[PassTimes, ...]
    """Times of every chunk, in the user's unit."""
    kept_share: float
    """Share of a chunk's activations that stays between input and weight gradient. [-]"""
    memory_limit: float | None
    """Activations of chunks that a rank may hold; None for as many as there are."""
    objective: Objective
    """What is to be small."""
    time_limit: float
    """When to stop looking. [s]"""

    @property
    def problems(self) -> list[OrderProblem]:
        """The step, with its chunks in a loop and in a V."""
        most = float(self.microbatches * self.vpp)
        limit = most if self.memory_limit is None else self.memory_limit
        return [self._problem(ranks, limit) for ranks in placements(self.pp, self.vpp)]

    def _problem(self, ranks: tuple[int, ...], limit: float) -> OrderProblem:
        return OrderProblem(
            ranks=ranks,
            forward=tuple(times.forward for times in self.times),
            input_gradient=tuple(times.input_gradient for times in self.times),
            weight_gradient=tuple(times.weight_gradient for times in self.times),
            hops=tuple(times.hop for times in self.times),
            saved=(1.0,) * len(ranks),
            kept=(self.kept_share,) * len(ranks),
            limits=(limit,) * self.pp,
            microbatches=self.microbatches,
            objective=self.objective,
        )


def synthesise_schedule(
    pp: int,
    microbatches: int,
    pass_times: Sequence[Sequence[float]],
    *,
    vpp: int = 1,
    memory_limit: float | None = None,
    kept_share: float = 1.0,
    objective: str = "makespan",
    time_limit: float = TIME_LIMIT,
) -> Synthesis:
    """Make an order of passes for a pipeline, never worse than a hand-made schedule.

    Parameters
    ----------
    pp, microbatches : int
        Ranks, and micro-batches of the step. [-]
    pass_times : sequence of sequences of float
        Forward, input gradient, weight gradient and, where not 0, message: once for all chunks, or of each
        of the ``pp * vpp`` in turn, in any unit.
    vpp : int
        Chunks on each rank. [-]
    memory_limit : float, optional
        Activations of chunks that a rank may hold; all where not said. [-]
    kept_share : float
        Share of them that stays between input and weight gradient. [-]
    objective : str
        What is small: ``makespan``, the step, or ``span``, the longest time of one rank from first to last.
    time_limit : float
        When to stop looking. [s]

    Returns
    -------
    Synthesis
        Its ``orders`` have each rank's passes; ``incumbent``, ``bound``, ``gap`` and ``proved`` tell how good
        they are, in the unit of the times, and ``rival`` the best hand-made schedule.

    Raises
    ------
    InputError
        If a value is wrong, all faults at once.
    Infeasible
        If a rank cannot hold one micro-batch.
    """
    values = {
        "pp": pp, "vpp": vpp, "microbatches": microbatches, "pass_times": pass_times,
        "memory_limit": memory_limit, "kept_share": kept_share, "objective": objective,
        "time_limit": time_limit,
    }  # fmt: skip
    asked = read_request(Reading(KEYWORDS), values)
    return synthesise(asked.problems, asked.time_limit)


def read_request(reading: Reading, values: Mapping[str, Any]) -> SynthesisRequest:
    """Return what is asked for, from texts or values by name.

    Raises `InputError` with all faults, those noted before included.
    """
    at = reading.door.place
    fault_missing(reading, {at(name): values[name] for name in ("pp", "microbatches", "pass_times")})
    pp = reading.count(at("pp"), values["pp"], most=MOST_RANKS)
    vpp = reading.count(at("vpp"), values["vpp"], most=MOST_RANKS) or 1
    microbatches = reading.count(at("microbatches"), values["microbatches"], most=MOST_SYNTHESIZED_PASSES)
    times = read_chunk_times(reading, values["pass_times"], (pp or 0) * vpp)
    limit = reading.number(at("memory_limit"), values["memory_limit"], 0.0)
    kept = reading.number(at("kept_share"), values["kept_share"], 0.0)
    if kept is not None and kept > 1:
        reading.fault(at("kept_share"), str(values["kept_share"]), "a share from 0 to 1", "1")
    objective = reading.word(at("objective"), values["objective"], OBJECTIVES)
    seconds = reading.number(at("time_limit"), values["time_limit"], 0.0)
    if pp and microbatches and 3 * pp * vpp * microbatches > MOST_SYNTHESIZED_PASSES:
        most = str(max(1, MOST_SYNTHESIZED_PASSES // (3 * pp * vpp)))
        expected = f"at most {MOST_SYNTHESIZED_PASSES:,} passes on all ranks for an order that is made"
        reading.fault(at("microbatches"), str(microbatches), expected, most)
    reading.finish()
    if pp is None or microbatches is None or not times:
        raise TypeError("a fault of the options was not noted")
    return SynthesisRequest(
        pp=pp,
        vpp=vpp,
        microbatches=microbatches,
        times=times,
        kept_share=1.0 if kept is None else kept,
        memory_limit=limit,
        objective="span" if objective == "span" else "makespan",
        time_limit=TIME_LIMIT if seconds is None else seconds,
    )


def read_chunk_times(
    reading: Reading, given: str | Sequence[Sequence[float]] | None, chunks: int
) -> tuple[PassTimes, ...]:
    """Return the times of every chunk, from one set for all or one for each; empty where a fault is noted."""
    parts = given.split(";") if isinstance(given, str) else given
    sets = [read_times(reading, part) for part in parts or ()]
    known = [times for times in sets if times is not None]
    if len(known) < len(sets) or not known or not chunks:
        return ()
    if len(known) not in (1, chunks):
        expected = f"times of all chunks, or of each of {chunks}, joined by semicolons"
        reading.fault(reading.door.place("pass_times"), f"those of {len(known)} chunks", expected)
        return ()
    return tuple(known) if len(known) == chunks else (known[0],) * chunks


def fault_missing(reading: Reading, given: Mapping[str, Any]) -> None:
    """Note every option without a value that a bare pipeline needs."""
    for option, text in given.items():
        if text is None:
            reading.fault(option, "nothing", "a value: a bare pipeline has no default for it")


def read_times(reading: Reading, given: str | Sequence[float] | None) -> PassTimes | None:
    """Return pass times written ``F,B,W`` or ``F,B,W,P2P``, or so many numbers; a fault is noted."""
    if given is None:
        return None
    try:
        numbers = [float(part) for part in (given.split(",") if isinstance(given, str) else given)]
    except ValueError:
        numbers = []
    fine = len(numbers) in (3, 4) and all(0 <= number <= LONGEST for number in numbers) and numbers[0] > 0
    if not fine:
        reading.fault(reading.door.place("pass_times"), shown(given), TIMES)
        return None
    return PassTimes(*numbers)
