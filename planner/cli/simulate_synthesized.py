"""``planner simulate --schedule synthesized``: an order made for the pass times, then played."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.cli.options import Format
from planner.cli.output import emit_document, emit_page
from planner.cli.simulate_asked import SYNTHESIZED, Answer
from planner.cli.simulation_page import document, figures, page, show
from planner.errors import Infeasible
from planner.question.reading import Reading
from planner.question.synthesis import SynthesisRequest, read_request
from planner.report.page import Page, Table, significant
from planner.search.synthesis.problem import OrderProblem
from planner.search.synthesis.synthesise import Synthesis, synthesise
from planner.simulate.record import StepRecord, step_record
from planner.simulate.trace import trace
from planner.techniques.schedules.engine import Pipeline, play
from planner.techniques.schedules.family import Pass

NAME: Final = SYNTHESIZED[0]
MOST_WRITTEN: Final = 100
"""Passes of a rank up to which the order is printed for people."""


def simulate_synthesized(
    reading: Reading,
    options: Mapping[str, str | None],
    sends_occupy: bool,
    spread: tuple[float, int],
    answer: Answer,
) -> None:
    """Make an order, play it, and tell it with what is known of the best.

    ``reading``: faults of the options so far; ``options``: what the user wrote for every option that
    describes the pipeline and the search; ``sends_occupy``: whether messages keep their senders while the
    order is played; ``spread``: relative spread of pass times while the order is played, and its seed;
    ``answer``: how the step is told.

    Raises `InputError` with all faults of the options; `Infeasible` if a rank cannot hold one micro-batch.
    """
    values = {option[2:].replace("-", "_"): text for option, text in options.items()}
    asked = read_request(reading, values)
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


def _pipeline(problem: OrderProblem, sends_occupy: bool) -> Pipeline:
    return Pipeline(
        ranks=problem.ranks,
        forward=problem.forward,
        input_gradient=problem.input_gradient,
        weight_gradient=problem.weight_gradient,
        hops=problem.hops,
        sends_occupy=sends_occupy,
    )


def _show(asked: SynthesisRequest, made: Synthesis, step: StepRecord, output: Format) -> None:
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


def optimality(asked: SynthesisRequest, made: Synthesis) -> dict[str, Any]:
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
