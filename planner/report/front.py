"""The exchange of time and memory, and of accelerators and speed: the best plan at each limit and count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from planner.cost.estimate import Estimate
from planner.report.as_json import Document, plain, plan_record
from planner.report.estimate_page import layout
from planner.report.page import Page, Table, significant
from planner.search.optimise import Request, search
from planner.units import GIB

Tell = Callable[[float, str], None]
"""Told the share done and what is being done."""


def memory_front(request: Request, points: int, tell: Tell) -> tuple[Estimate, ...]:
    """Return the fastest plan at each of ``points`` limits of memory, from the least that fits to all.

    Every one is on the front of time and memory: no plan of the space that needs less is faster. Plans are
    uniform, as ``planner search --uniform`` finds them; those that several limits share stand once.
    """
    tell(0.0, "the least memory that fits")
    plain_request = replace(request, objective="time", top=1, uniform=True)
    least = search(replace(plain_request, objective="memory")).plans
    if not least:
        return ()
    most = float(request.clusters[0].pool.accelerator.memory_visible)
    most = min(most, request.memory_limit or most)
    found = {least[0].plan: least[0]}
    for point in range(1, points + 1):
        limit = least[0].peak + (most - least[0].peak) * point / points
        tell(point / (points + 1), f"the fastest plan in {limit / GIB:.0f} GiB")
        for plan in search(replace(plain_request, memory_limit=limit)).plans:
            found[plan.plan] = plan
    return tuple(undominated(found.values()))


def undominated(plans: Iterable[Estimate]) -> list[Estimate]:
    """Return the plans that no other beats in time and memory, the fastest first."""
    kept: list[Estimate] = []
    for plan in sorted(plans, key=lambda plan: (plan.step, plan.peak)):
        if not kept or plan.peak < kept[-1].peak:
            kept.append(plan)
    return kept


def best_at_counts(request: Request, counts: Iterable[int], tell: Tell) -> tuple[Estimate, ...]:
    """Return the fastest plan on each number of accelerators on which one fits."""
    best: list[Estimate] = []
    for gpus in counts:
        tell(0.0, f"the fastest plan on {gpus:,} accelerators")
        best += search(replace(request, gpu_counts=(gpus,), objective="time", top=1, uniform=True)).plans
    return tuple(best)


def front_page(front: Iterable[Estimate]) -> Page:
    """Return a front for people."""
    rows = tuple(
        {
            "layout": layout(plan.plan),
            "s/step": significant(plan.step),
            "GiB": f"{plan.peak / GIB:.1f}",
        }
        for plan in front
    )
    return ["Time against memory, the fastest plan at each limit:", Table(rows)] if rows else []


def front_document(front: Iterable[Estimate]) -> list[Document]:
    """Return a front as JSON."""
    rows: list[Document] = plain(
        [
            {
                "layout": layout(plan.plan),
                "plan": plan_record(plan.plan),
                "step_time_s": plan.step,
                "peak_gib": plan.peak / GIB,
            }
            for plan in front
        ]
    )
    return rows
