"""An order of passes made for one plan, by its own times, memory and messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.memory.fit import safe_share
from planner.dataclasses import dataclass, replace
from planner.errors import Infeasible
from planner.report.estimate_page import first_steps
from planner.report.page import Page, significant
from planner.report.plan_file import plan_orders
from planner.search.result import SearchResult
from planner.search.synthesis.hand_made import is_rival
from planner.search.synthesis.problem import OrderProblem
from planner.search.synthesis.synthesise import Synthesis, synthesise
from planner.simulate.plan import PlayedPlan, play_plan
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import read_offload
from planner.techniques.pipelines import PIPELINE_CODES
from planner.techniques.schedules import SCHEDULES
from planner.techniques.schedules.engine import play
from planner.techniques.schedules.text import order_lines
from planner.units import GIB, percent

MOST_MADE: Final = 3
"""Plans of a search for which orders are made: the best that have a pipeline."""

SLACK: Final = 1e-6
"""Relative difference of two played steps that counts as none. [-]"""


@dataclass(frozen=True)
class MadeOrder:
    """An order for a plan, and what it gains."""

    answer: Estimate
    """The plan as priced."""
    known: float
    step: float
    """Seconds of its step, played under its own schedule, and under the made order. [s]"""
    bound: float
    """Seconds that no order within the memory limit beats, chunks being where the plan has them. [s]"""
    peak: float
    """Bytes of the peak rank under the made order. [byte]"""
    synthesis: Synthesis
    """The order, and how it was found."""

    @property
    def kept(self) -> bool:
        """Whether the made order is faster than the plan's own schedule."""
        return self.step < self.known * (1.0 - SLACK)

    @property
    def text(self) -> str:
        """The order as PyTorch's pipelining reads it: a line for each rank."""
        return "\n".join(order_lines(self.synthesis.orders)) + "\n"


def can_be_made(answer: Estimate) -> bool:
    """Whether the runtime of a plan takes an order of its own, and the plan has one to make."""
    plan = answer.plan
    plain = is_rival(SCHEDULES[plan.schedule]) and not read_offload(OFFLOADS, plan.offload).layers
    return bool(answer.runtime.order_command is not None and plan.pp > 1 and plain)


def made_orders(answers: Sequence[Estimate], seconds: float, risk: float) -> tuple[MadeOrder, ...]:
    """Make orders for the best plans of a search that can have one, within ``seconds`` together.

    Parameters
    ----------
    answers : sequence of Estimate
        Priced plans, best first.
    seconds : float
        When to stop looking; what is begun is ended. [s]
    risk : float
        Accepted probability of running out of memory. [-]
    """
    chosen = [answer for answer in answers if can_be_made(answer)][:MOST_MADE]
    made = [made_order(answer, seconds / len(chosen), risk) for answer in chosen]
    return tuple(one for one in made if one is not None)


def made_order(answer: Estimate, seconds: float, risk: float) -> MadeOrder | None:
    """Make an order for one plan; None where a rank cannot hold what the order needs."""
    played = play_plan(answer.plan, answer.job, answer.runtime, answer.capacity)
    limit = answer.capacity * safe_share(risk, answer.runtime.traits.allocator.memory_spread)
    try:
        found = synthesise([_problem(played, limit)], seconds)
    except Infeasible:
        return None
    again = replace(played, timeline=play(found.orders, played.pipeline))
    peaks = [stage.peak_bytes or 0.0 for stage in again.record.stages]
    least = found.bound + (again.step - found.incumbent)
    return MadeOrder(answer, played.step, again.step, least, max(peaks), found)


def _problem(played: PlayedPlan, limit: float) -> OrderProblem:
    """Return the step as a problem: memory in bytes, beside what rests on each rank."""
    pipeline, sizes = played.pipeline, played.sizes
    apart = PIPELINE_CODES[played.estimate.runtime.traits.pipeline.code].ends_apart
    return OrderProblem(
        ranks=pipeline.ranks,
        forward=pipeline.forward,
        input_gradient=pipeline.input_gradient,
        weight_gradient=pipeline.weight_gradient,
        hops=pipeline.hops,
        saved=sizes.saved,
        kept=sizes.kept_for_weights,
        limits=tuple(limit - resting for resting in played.resting),
        microbatches=int(played.estimate.plan.num_microbatches),
        objective="span" if apart else "makespan",
    )


def ordered_first_steps(answer: Estimate, order: str) -> dict[str, str]:
    """Return what the log of the first steps should show where the plan runs in an order of its own."""
    orders = plan_orders(answer.plan, order.splitlines())
    played = play_plan(answer.plan, answer.job, answer.runtime, answer.capacity, orders=orders)
    peak = max(stage.peak_bytes or 0.0 for stage in played.record.stages)
    return first_steps(replace(answer, step=played.step), peak)


def made_record(made: MadeOrder) -> Mapping[str, object]:
    """Return what a search tells of a made order."""
    found = made.synthesis
    return {
        "plan": made.answer.plan.slug,
        "schedule": made.answer.plan.schedule,
        "schedule_step_s": made.known,
        "synthesized_step_s": made.step,
        "bound_s": made.bound,
        "gap": max(0.0, 1.0 - made.bound / made.step),
        "peak_bytes": made.peak,
        "method": found.method,
        "solver": found.solver or None,
        "seconds": found.seconds,
        "kept": made.kept,
        "note": found.note,
    }


def best_first(result: SearchResult, made: Sequence[MadeOrder]) -> SearchResult:
    """Return a search with its plans in the order of what they take under the best order known.

    A plan takes what the search ranks it by, which is its played step where that is far from its price, and a
    made order its own played step where that is less. Each plan keeps the played step that is told of it.
    """
    faster = {id(one.answer): one.step for one in made if one.kept}
    count = len(result.plans)
    rows = list(zip(result.plans, result.played[:count] or (None,) * count, strict=True))

    def seconds(row: tuple[Estimate, float | None]) -> float:
        answer, played = row
        known = answer.step if played is None else played
        return min(known, faster.get(id(answer), known))

    rows.sort(key=seconds)
    plans, played = tuple(answer for answer, _ in rows), tuple(seconds for _, seconds in rows)
    return replace(result, plans=plans, played=played + result.played[count:])


def made_page(made: Sequence[MadeOrder] | None, ranks: bool) -> Page:
    """Return what was made, in words, and whether it ``ranks`` plans; nothing where nothing was asked for."""
    if made is None:
        return []
    if not made:
        return ["Orders made for plans: none, since no plan shown has a pipeline whose runtime takes one."]
    ranked = ", which rank with the faster of both steps" if ranks else ""
    return ["\n".join([f"Orders made for plans{ranked}:", *map(_made_line, made)])]


def _made_line(made: MadeOrder) -> str:
    found, plan = made.synthesis, made.answer.plan
    far = "none is faster" if found.proved else f"none is more than {percent(found.gap, 2)} faster"
    known, step = significant(made.known), significant(made.step)
    end = (
        f"{step} s and {made.peak / GIB:.1f} GiB in the made order"
        if made.kept
        else "no order made is faster"
    )
    note = f" ({found.note})" if found.note else ""
    return (
        f"{plan.slug}: played, {known} s under {plan.schedule}, {end}; within the memory {far}. Found by "
        f"{found.method} in {found.seconds:.1f} s{note}."
    )
