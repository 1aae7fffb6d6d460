"""What ``planner search`` does once it knows what is asked: plans, limits, orders, and what it tells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from planner.cli.launch import Launch, wanted_target
from planner.cli.notes import job_notes
from planner.cli.options import OutputOptions
from planner.cli.printable import to_stderr

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.report.made_order import MadeOrder
    from planner.search.optimise import SearchResult
    from planner.search.request import Request


def best_plans(
    request: Request, points: int | None, making: float | None, shown: OutputOptions
) -> tuple[SearchResult, Request, tuple[Estimate, ...] | None, tuple[MadeOrder, ...] | None]:
    """Return the ranked plans, the request with what they use, time against memory, and made orders."""
    from planner.cli.progress import Progress
    from planner.cli.reach import check_reached
    from planner.report.front import memory_front
    from planner.report.made_order import best_first, made_orders
    from planner.search.optimise import search as ranked

    with Progress(shown.quiet, shown.verbose) as progress:
        result = ranked(request, progress)
        progress(1.0, f"{result.priced:,} plans priced in {result.scan:.3f} s")
        request = in_use(request, result)
        known = result.plans
        limits = memory_front(request, points, progress, known=known) if points and known else ()
        made = made_orders(result.plans, making, request.oom_risk) if making is not None else None
    if made and request.objective == "time":
        result = best_first(result, made)
    if not result.valid:
        check_reached(request)
    return result, request, limits if points else None, made


def tell_notes(request: Request, shown: OutputOptions, objective: str) -> None:
    """Tell on standard error what a user should know of the job."""
    if not shown.quiet:
        notes = job_notes(request.model, request.workload, request.clusters, request.gpu_counts, objective)
        for line in notes:
            to_stderr(f"note: {line}")


def best_flags(result: SearchResult, launch: Launch, order: str | None) -> dict[str, Any] | None:
    """Return the runner's own flags of the best plan; None where there is no plan."""
    from planner.cli.flags import flags_of

    if not result.plans:
        return None
    best = result.plans[0]
    return flags_of(best, wanted_target(launch, best.runtime), order)


def order_of(result: SearchResult, made: tuple[MadeOrder, ...] | None, objective: str) -> str | None:
    """Return the order that was made for the best plan, where it is faster and speed is asked for."""
    faster = (one for one in made or () if one.kept and objective != "memory")
    return next((one.text for one in faster if result.plans and one.answer is result.plans[0]), None)


def in_use(request: Request, result: SearchResult) -> Request:
    """Return the request with the accelerators that its plans use, where they cannot use all."""
    if not result.plans or not result.plans[0].job.idle:
        return request
    lead = result.plans[0].job
    return replace(request, gpu_counts=(lead.gpus,), cluster_gpus=lead.gpus + lead.idle)
