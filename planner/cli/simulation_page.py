"""A played step for scripts and for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from planner.cli.options import Format
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.report.page import Page, Table, significant
from planner.simulate.record import RankRecord, StepRecord
from planner.units import GIB

if TYPE_CHECKING:
    from planner.cli.simulate_beside import SimulatedBeside

SCHEMA: Final = "planner/simulate/1"


def document(schedule: str, step: StepRecord | None) -> dict[str, Any]:
    """Return a simulation as the contract's JSON; its figures are null where it could not run."""
    head: dict[str, Any] = {"schema": SCHEMA, "schedule": schedule}
    if step is None:
        return head | {"makespan": None, "bubble": None, "longest_span": None, "stages": []}
    figures = {"makespan": step.makespan, "bubble": step.bubble, "longest_span": step.longest_span}
    return head | figures | {"stages": stage_rows(step)}


def stage_rows(step: StepRecord) -> list[dict[str, Any]]:
    """Return the figures of every rank under the contract's keys."""
    rows = []
    for stage in step.stages:
        row = asdict(stage)
        held = row.pop("peak_bytes")
        rows.append(row | {"peak_gib": None if held is None else held / GIB})
    return rows


def show(
    schedule: str, head: str, step: StepRecord, output: Format, beside: SimulatedBeside | None = None
) -> None:
    """Write a simulation to standard output, under ``head`` where people read it."""
    if output is Format.json:
        emit_document(document(schedule, step) | (beside.document() if beside else {}))
    elif output is Format.csv:
        emit_rows(stage_rows(step), output)
    else:
        emit_page(page(head, step) + (beside.page() if beside else []), output)


def page(head: str, step: StepRecord) -> Page:
    """Return a simulation for people."""
    return [head, Table(tuple(_row(stage, step.makespan) for stage in step.stages))]


def _row(stage: RankRecord, makespan: float) -> dict[str, str]:
    row = {
        "rank": str(stage.stage),
        "busy": significant(stage.busy),
        "idle": f"{1 - stage.busy / makespan:.1%}" if makespan else "-",
        "forwards": str(stage.forwards),
        "backwards": str(stage.backwards),
        "weight passes": str(stage.weight_passes),
        "peak in flight": str(stage.peak_in_flight),
    }
    return row | ({"peak GiB": f"{stage.peak_bytes / GIB:.1f}"} if stage.peak_bytes is not None else {})


def figures(step: StepRecord) -> str:
    """Return makespan, bubble and longest span in words."""
    share = step.bubble / step.makespan if step.makespan else 0.0
    return (
        f"Makespan {significant(step.makespan)}, bubble {significant(step.bubble)} ({share:.1%} of it), "
        f"longest span of a rank {significant(step.longest_span)}"
    )
