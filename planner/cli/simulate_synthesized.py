"""``planner simulate --schedule synthesized``: an order made for the pass times, then played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.cli.options import Format
from planner.cli.output import emit_document, emit_page
from planner.cli.simulate_asked import MOST_RANKS, SYNTHESIZED, Answer, fault_missing, read_times
from planner.cli.simulation_page import document, figures, page, show
from planner.errors import Infeasible
from planner.question.reading import Reading
from planner.report.page import Page, Table, significant
from planner.search.synthesis.hand_made import placements
from planner.search.synthesis.problem import OBJECTIVES, Objective, Problem
from planner.search.synthesis.synthesise import TIME_LIMIT, Synthesis, synthesise
from planner.simulate.record import StepRecord, step_record
from planner.simulate.trace import trace
from planner.techniques.schedules._engine import Pipeline, play
from planner.techniques.schedules._family import Pass, PassTimes

NAME: Final = SYNTHESIZED[0]
MOST_PASSES: Final = 100_000
MOST_WRITTEN: Final = 100
"""Passes of a rank up to which the order is printed for people."""


@dataclass(frozen=True)
class Request:
    """What the user asks to make.

    Parameters
    ----------
    pp, vpp, microbatches : int
        Ranks, chunks per rank, micro-batches.
    times : tuple of PassTimes
        Times of every chunk, in the user's unit.
    kept_share : float
        Share of a chunk's activations that stays between input and weight gradient. [-]
    memory_limit : float or None
        Activations of chunks that a rank may hold; None for as many as there are.
    objective : Objective
        What is to be small.
    time_limit : float
        When to stop looking. [s]
    """

    pp: int
    vpp: int
    microbatches: int
    times: tuple[PassTimes, ...]
    kept_share: float
    memory_limit: float | None
    objective: Objective
    time_limit: float

    @property
    def problems(self) -> list[Problem]:
        """The step, with its chunks in a loop and in a V."""
        most = float(self.microbatches * self.vpp)
        limit = most if self.memory_limit is None else self.memory_limit
        return [self._problem(ranks, limit) for ranks in placements(self.pp, self.vpp)]

    def _problem(self, ranks: tuple[int, ...], limit: float) -> Problem:
        return Problem(
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


def simulate_synthesized(
    reading: Reading,
    options: Mapping[str, str | None],
    sends_occupy: bool,
    spread: tuple[float, int],
    answer: Answer,
) -> None:
    """Make an order, play it, and tell it with what is known of the best.

    Parameters
    ----------
    reading : Reading
        Faults of the options so far.
    options : mapping
        What the user wrote for every option that describes the pipeline and the search.
    sends_occupy : bool
        Whether messages keep their senders while the order is played.
    spread : tuple of (float, int)
        Relative spread of pass times while the order is played, and its seed.
    answer : Answer
        How the step is told.

    Raises
    ------
    InputError
        With all faults of the options.
    Infeasible
        If a rank cannot hold one micro-batch.
    """
    asked = read_request(reading, options)
    try:
        with answer.progress as progress:
            progress(0.0, f"looking for an order, at most {asked.time_limit:g} s")
            made = synthesise(asked.problems, asked.time_limit)
    except Infeasible as error:
        if answer.output is Format.json:
            emit_document(document(NAME, None) | {"violations": [str(error)]})
        raise
    pipeline = _pipeline(made.problem, sends_occupy)
    timeline = play(made.orders, pipeline, *spread)
    answer.write_trace(lambda: trace(timeline, pipeline, unit=0.001))
    _show(asked, made, step_record(timeline), answer.output)
    answer.draw(timeline, asked.pp, asked.pp * asked.vpp)


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
    asked = read_request(
        Reading(),
        {
            "--pp": str(pp), "--vpp": str(vpp), "--microbatches": str(microbatches),
            "--pass-times": ";".join(",".join(map(str, times)) for times in pass_times),
            "--memory-limit": None if memory_limit is None else str(memory_limit),
            "--kept-share": str(kept_share), "--objective": objective, "--time-limit": str(time_limit),
        },
    )  # fmt: skip
    return synthesise(asked.problems, asked.time_limit)


def _pipeline(problem: Problem, sends_occupy: bool) -> Pipeline:
    return Pipeline(
        ranks=problem.ranks,
        forward=problem.forward,
        input_gradient=problem.input_gradient,
        weight_gradient=problem.weight_gradient,
        hops=problem.hops,
        sends_occupy=sends_occupy,
    )


def read_request(reading: Reading, options: Mapping[str, str | None]) -> Request:
    """Return what the options ask for.

    Raises
    ------
    InputError
        With all faults of the options, those noted before included.
    """
    fault_missing(reading, {name: options[name] for name in ("--pp", "--microbatches", "--pass-times")})
    pp = reading.count("--pp", options["--pp"], most=MOST_RANKS)
    vpp = reading.count("--vpp", options["--vpp"], most=MOST_RANKS) or 1
    microbatches = reading.count("--microbatches", options["--microbatches"], most=MOST_PASSES)
    times = read_chunk_times(reading, options["--pass-times"], (pp or 0) * vpp)
    limit = reading.number("--memory-limit", options["--memory-limit"], 0.0)
    kept = reading.number("--kept-share", options["--kept-share"], 0.0)
    if kept is not None and kept > 1:
        reading.fault("--kept-share", str(options["--kept-share"]), "a share from 0 to 1", "1")
    objective = reading.word("--objective", options["--objective"], OBJECTIVES)
    seconds = reading.number("--time-limit", options["--time-limit"], 0.0)
    if pp and microbatches and 3 * pp * vpp * microbatches > MOST_PASSES:
        most = str(max(1, MOST_PASSES // (3 * pp * vpp)))
        expected = f"at most {MOST_PASSES:,} passes on all ranks for an order that is made"
        reading.fault("--microbatches", str(microbatches), expected, most)
    reading.finish()
    if pp is None or microbatches is None or not times:
        raise TypeError("a fault of the options was not noted")
    return Request(
        pp=pp,
        vpp=vpp,
        microbatches=microbatches,
        times=times,
        kept_share=1.0 if kept is None else kept,
        memory_limit=limit,
        objective="span" if objective == "span" else "makespan",
        time_limit=TIME_LIMIT if seconds is None else seconds,
    )


def read_chunk_times(reading: Reading, text: str | None, chunks: int) -> tuple[PassTimes, ...]:
    """Return the times of every chunk, from one set for all or one for each; empty where a fault is noted."""
    sets = [read_times(reading, part) for part in (text or "").split(";")] if text is not None else []
    known = [times for times in sets if times is not None]
    if len(known) < len(sets) or not known or not chunks:
        return ()
    if len(known) not in (1, chunks):
        expected = f"times of all chunks, or of each of {chunks}, joined by semicolons"
        reading.fault("--pass-times", f"those of {len(known)} chunks", expected)
        return ()
    return tuple(known) if len(known) == chunks else (known[0],) * chunks


def _show(asked: Request, made: Synthesis, step: StepRecord, output: Format) -> None:
    if output is Format.json:
        orders = [" ".join(map(_written, passes)) for passes in made.orders]
        known = {"order": orders, "optimality": optimality(asked, made)}
        emit_document(document(NAME, step) | known)
    elif output is Format.csv:
        show(NAME, "", step, output)
    else:
        title = f"{NAME}: pp {asked.pp}, vpp {asked.vpp}, {asked.microbatches} micro-batches."
        head = f"{title} {figures(step)}; times in the unit of the pass times.\n{_proof(made)}"
        emit_page([*page(head, step), *_order_page(made)], output)


def optimality(asked: Request, made: Synthesis) -> dict[str, Any]:
    """Return what is known of the best, for scripts; values in the unit of the pass times."""
    rival = {"schedule": made.rival[0], "value": made.rival[1]} if made.rival else None
    return {
        "objective": made.problem.objective,
        "memory_limit": asked.memory_limit,
        "kept_share": asked.kept_share,
        "incumbent": made.incumbent,
        "bound": made.bound,
        "gap": made.gap,
        "proved": made.proved,
        "method": made.method,
        "solver": made.solver or None,
        "seconds": made.seconds,
        "hand_made": rival,
        "placement": list(made.problem.ranks),
        "note": made.note,
    }


def _proof(made: Synthesis) -> str:
    """Return bound, gap and origin in words."""
    name = {"makespan": "makespan", "span": "longest span of a rank"}[made.problem.objective]
    bound = significant(made.bound, 5)
    proof = (
        f"no {name} is below {bound}: this order is the best there is"
        if made.proved
        else (f"no {name} is below {bound}: a better order would save {made.gap:.2%} at most")
    )
    words = [f"Of orders within the limit, {proof}."]
    asked = f", {made.solver} asked" if made.solver else ""
    words.append(f"Found by {made.method}; {made.seconds:.2f} s in all{asked}.")
    if made.rival:
        name, value = made.rival
        words.append(f"The best hand-made schedule within the limit is {name} with {significant(value, 5)}.")
    else:
        words.append("No hand-made schedule keeps the limit.")
    return " ".join([*words, f"Note: {made.note}." if made.note else ""]).strip()


def _order_page(made: Synthesis) -> Page:
    """Return the order for people, where it is short enough."""
    if max(map(len, made.orders)) > MOST_WRITTEN:
        return ["The order stands in --format json."]
    rows = (
        {"rank": str(rank), "order (chunk, pass, micro-batch)": " ".join(map(_written, passes))}
        for rank, passes in enumerate(made.orders)
    )
    return [Table(tuple(rows))]


def _written(item: Pass) -> str:
    return f"{item.chunk}{item.kind}{item.microbatch}"
