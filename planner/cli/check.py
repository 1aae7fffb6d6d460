"""``planner check``: a plan's own kernels on the local device, predicted against measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Format, FormatOption, PlanArgument, QuietOption, VerboseOption
from planner.cli.output import emit_document, emit_rows
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.errors import CheckFailed, InputError, Problem, UnsupportedPlan
from planner.profile.device import open_device
from planner.profile.health import check_free, check_works, uuid_of
from planner.profile.nvml import open_driver
from planner.units import GIB, show

with deferred():
    from planner import rules
    from planner.cli import plans
    from planner.cost import price
    from planner.profile import check as profile_check

if TYPE_CHECKING:
    from planner.profile.check import Checked, Compared

Row = dict[str, Any]


def check(
    plan: PlanArgument,
    device: Annotated[
        str, typer.Option("--device", metavar="cpu|cuda|cuda:N", help="Where its kernels run.")
    ] = "cuda",
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance", metavar="SHARE", help="Largest move of the step and of a layer's memory."
        ),
    ] = 0.1,
    allow_busy: Annotated[
        bool,
        typer.Option("--allow-busy", help="Measure a device that others use, that is sliced or throttled."),
    ] = False,
    output: FormatOption = Format.table,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run one rank's share of a plan's layers on this device and report how far off its estimate is."""
    if not (math.isfinite(tolerance) and tolerance > 0):
        raise InputError(Problem("--tolerance", f"{tolerance:g}", "a share above 0, such as 0.1"))
    saved = plans.read_plan(plan)
    priced = price.price(saved.plan, saved.job, saved.runtime, saved.names.memory_limit)
    if isinstance(priced, price.Unpriced) or priced.violations:
        raise UnsupportedPlan(rules.refusal(saved.runtime.name, priced.violations))
    opened = open_device(device)
    notes = list(saved.notes)
    if not allow_busy:
        check_free(opened, open_driver(uuid_of(opened)))
        notes += check_works(opened)
    with Progress(quiet, verbose) as progress:
        checked = profile_check.check_plan(priced, opened, progress)
    for note in (*notes, *checked.notes):
        progress.tell(f"note: {note}")
    answer(checked, opened.name, tolerance, output)
    faults = too_far(checked, tolerance)
    if faults:
        raise CheckFailed("\n".join(faults))


def answer(checked: Checked, product: str, tolerance: float, output: Format) -> None:
    """Print the comparison."""
    if output is Format.json:
        emit_document(document(checked, product, tolerance))
    else:
        emit_rows(
            [*map(operator_row, checked.operators), *memory_rows(checked)], output, legend=verdict(checked)
        )


def too_far(checked: Checked, tolerance: float) -> list[str]:
    """Return what is past the tolerance."""
    found = []
    if abs(checked.move) > tolerance:
        found.append(f"the step estimate should move by {checked.move:+.1%}, more than {tolerance:.0%}")
    for one in checked.memory:
        if one.measured is not None and abs(one.measured / one.predicted - 1) > tolerance:
            off = one.measured / one.predicted - 1
            found.append(f"{one.part}: {one.what} is {off:+.1%} off, more than {tolerance:.0%}")
    return found


def verdict(checked: Checked) -> str:
    """Say in words whether the estimate should move."""
    words = (
        f"\nstep estimate {show(checked.step, 's')}, with the measured kernels {show(checked.moved, 's')} "
        f"({checked.move:+.1%}); {checked.covered:.0%} of the stage's time was measured; memory: what one "
        "layer keeps for its backward pass, and its peak in both passes"
    )
    ratio = checked.optimizer_ratio
    return words + (f"\noptimizer step: {ratio:.2f} times the predicted" if ratio is not None else "")


def operator_row(row: Compared) -> Row:
    """Return one line of the table."""
    ratio = None if row.measured is None or not row.predicted else round(row.measured / row.predicted, 3)
    return {
        "part": row.part,
        "operator": row.operator,
        "pass": row.step,
        "runs": row.runs,
        "predicted": show(row.predicted, "s"),
        "measured": row.reason if row.measured is None else show(row.measured, "s"),
        "ratio": ratio,
    }


def memory_rows(checked: Checked) -> list[Row]:
    """Return the lines of memory."""
    return [
        {
            "part": one.part,
            "operator": "memory",
            "pass": one.what,
            "runs": 1.0,
            "predicted": show(one.predicted, "byte"),
            "measured": one.reason if one.measured is None else show(one.measured, "byte"),
            "ratio": None if one.measured is None else round(one.measured / one.predicted, 3),
        }
        for one in checked.memory
    ]


def document(checked: Checked, product: str, tolerance: float) -> Row:
    """Return the comparison as one JSON object."""
    return {
        "schema": "planner/check/1",
        "device": product,
        "step_time_s": checked.step,
        "step_time_checked_s": checked.moved,
        "move": checked.move,
        "covered": checked.covered,
        "optimizer_ratio": checked.optimizer_ratio,
        "tolerance": tolerance,
        "within": not too_far(checked, tolerance),
        "operators": [
            {
                "part": row.part,
                "operator": row.operator,
                "pass": row.step,
                "runs": row.runs,
                "predicted_s": row.predicted,
                "measured_s": row.measured,
                "reason": row.reason,
            }
            for row in checked.operators
        ],
        "memory": [
            {
                "part": one.part,
                "what": one.what,
                "predicted_gib": one.predicted / GIB,
                "measured_gib": None if one.measured is None else one.measured / GIB,
                "reason": one.reason,
            }
            for one in checked.memory
        ],
        "notes": list(checked.notes),
    }
