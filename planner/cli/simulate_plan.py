"""``planner simulate PLAN``: one step of a saved plan, with the cost model's times."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.cli.options import Format
from planner.cli.output import emit_document
from planner.cli.plans import read_plan
from planner.cli.simulate_asked import Answer, check_size
from planner.cli.simulation_page import document, figures, show
from planner.cli.versions import version_notes
from planner.cost.case import case_of
from planner.cost.legal import all_rules
from planner.errors import Infeasible, UnsupportedPlan
from planner.question.job import check_precision
from planner.question.reading import Reading
from planner.report.page import counted, significant
from planner.rules import violations
from planner.simulate.plan import play_plan
from planner.simulate.plan_trace import plan_trace
from planner.units import GIB, percent

if TYPE_CHECKING:
    from planner.report.plan_file import PlanFile
    from planner.simulate.plan import PlayedPlan


def simulate_plan(path: Path, reading: Reading, spread: tuple[float, int], answer: Answer) -> None:
    """Play a saved plan.

    Parameters
    ----------
    path : Path
        The plan file.
    reading : Reading
        Faults of the options so far.
    spread : tuple of (float, int)
        Relative spread of pass times, and its seed.
    answer : Answer
        How the step is told.

    Raises
    ------
    InputError
        With every fault of the file or the options.
    UnsupportedPlan, Infeasible
        If the plan breaks a rule, or does not fit.
    """
    saved = reading.attempt(read_plan, path)
    if saved is not None:
        check_precision(saved.job.hardware, saved.job.workload, reading)
        chunks = int(saved.plan.pp * saved.plan.vpp)
        check_size(reading, chunks, int(saved.plan.num_microbatches), f"{path}: plan.num_microbatches")
    reading.finish()
    if saved is None:
        raise AssertionError("a fault was not told")
    answer.check_trace(chunks, int(saved.plan.num_microbatches))
    for line in (*saved.changed, *version_notes([saved.job.hardware])):
        answer.progress.tell(f"note: {line}")
    refuse_broken(saved, answer.output)
    with answer.progress as progress:
        progress(0.0, f"playing {path}")
        played = play_plan(
            saved.plan, saved.job, saved.runtime, saved.names.memory_limit, *spread, saved.orders
        )
        answer.write_trace(lambda: plan_trace(played))
    schedule = saved.plan.schedule if saved.order is None else "synthesized"
    show(schedule, headline(saved, played), played.record, answer.output)
    answer.draw(played.timeline, int(saved.plan.pp), chunks)
    known = played.estimate
    if not known.feasible:
        peak, capacity = known.peak / GIB, known.capacity / GIB
        raise Infeasible(f"{path}: the plan does not fit: {peak:.1f} GiB of {capacity:.1f} GiB")


def refuse_broken(saved: PlanFile, output: Format) -> None:
    """Refuse a plan that breaks a rule; JSON is written in full.

    Raises
    ------
    UnsupportedPlan
        With every rule that it breaks.
    """
    plan, job = saved.plan, saved.job
    broken = violations(all_rules(plan, case_of(plan, job, saved.runtime)))
    reasons = [f"{fault.rule}: {fault.found}; needs {fault.expected}" for fault in broken]
    if reasons:
        if output is Format.json:
            emit_document(document(plan.schedule, None) | {"violations": reasons})
        raise UnsupportedPlan("\n".join(reasons))


def headline(saved: PlanFile, played: PlayedPlan) -> str:
    """Return what was played, its figures, and how far the price is from them."""
    plan, step = saved.plan, played.record
    price, seconds = played.estimate.step, played.step
    named = f" under {plan.schedule}" if saved.order is not None else ""
    off = (
        f"{named}, {percent(abs(price / seconds - 1), 2)} {'more' if price >= seconds else 'less'} for a step"
    )
    return (
        f"{saved.job.model.name} on {counted(saved.job.gpus, 'accelerator')} of {saved.job.hardware.name}, "
        f"{saved.runtime.name}: {plan.slug}, "
        f"{'an order made for it' if saved.order else plan.schedule}, "
        f"{plan.num_microbatches:.0f} micro-batches. "
        f"{figures(step)}; seconds. The estimate says {significant(price)}"
        f"{', as played' if price == seconds else off}."
    )
