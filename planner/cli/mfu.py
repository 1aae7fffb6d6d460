"""``planner mfu``: a measured step time or token rate as MFU and HFU, beside the estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from planner.cli.config import settings
from planner.cli.explain import priced, read_saved
from planner.cli.options import (
    Format,
    JobOptions,
    OutputOptions,
    PlanOptions,
    StepTimeOption,
    TokenRateOption,
    spread,
    text_option,
)
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.cli.versions import version_notes
from planner.deferred import deferred
from planner.files import is_plan_file
from planner.question.reading import Reading
from planner.units import parse

with deferred():
    from planner.cli import estimate
    from planner.cost import price
    from planner.report import as_json
    from planner.report import mfu as report_mfu

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate


@spread
def mfu(
    job: JobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    step_time: StepTimeOption = None,
    tokens_per_s: TokenRateOption = None,
    tokens_per_s_per_gpu: Annotated[
        str | None, text_option("X", "Measured tokens/s of one accelerator.")
    ] = None,
) -> None:
    """Convert a measured speed to MFU and HFU, and explain its gap to the estimate.

    MODEL may also be a plan file; then everything but the measurement comes from it.
    """
    reading = Reading()
    texts = {
        "--step-time": step_time,
        "--tokens-per-s": tokens_per_s,
        "--tokens-per-s-per-gpu": tokens_per_s_per_gpu,
    }
    speeds = {name: above_zero(reading, name, text) for name, text in texts.items()}
    given = {name: value for name, value in speeds.items() if value is not None}
    if not reading.problems and len(given) != 1:
        reading.fault(", ".join(texts), ", ".join(given) or "nothing", "exactly one measurement")
    reading.finish()
    with Progress(shown.quiet, shown.verbose) as progress:
        progress(0.0, "pricing the plan")
        answer, defaults = read_answer(job, plan, progress)
    ((name, value),) = given.items()
    tokens = answer.job.workload.tokens_per_step
    share = {"--step-time": 0, "--tokens-per-s": 1, "--tokens-per-s-per-gpu": answer.job.gpus}[name]
    measured = report_mfu.MeasuredStep(answer, tokens / (value * share) if share else value)
    document = report_mfu.mfu_document(measured)
    if shown.output is Format.json:
        emit_document(document)
    elif shown.output is Format.csv:
        emit_rows([as_json.plain(row) for row in document["conventions"]], shown.output)
    else:
        emit_page(report_mfu.mfu_page(measured, {} if shown.quiet else defaults), shown.output)


def above_zero(reading: Reading, name: str, text: str | None) -> float | None:
    """Return a measured number, or note that it is none: seconds, also as 450ms, or tokens/s, also as 50K."""
    if text is None:
        return None
    if name != "--step-time":
        return reading.amount(name, text)
    try:
        value = parse(text, "s") if text.strip()[-1:] == "s" else float(text)
    except ValueError:
        value = math.nan
    if 0 < value < math.inf:
        return value
    reading.fault(name, repr(text), "seconds above 0, such as 7.5 or 450ms")
    return None


def read_answer(job: JobOptions, plan: PlanOptions, progress: Progress) -> tuple[Estimate, Mapping[str, Any]]:
    """Return the price of the plan that the options or a plan file name, and what was taken for it.

    Raises `InputError` if something is wrong, or options stand beside a plan file; `UnsupportedPlan` if the
    plan's degrees leave no price.
    """
    path = Path(job.model)
    if is_plan_file(path):
        refuse_beside(job, plan)
        return priced(read_saved(path), path), {}
    asked, chosen, runtime, defaults, names = estimate.read(job, plan)
    for line in version_notes([asked.hardware]):
        progress.tell(f"note: {line}")
    answer = price.price(chosen, asked, runtime, names.memory_limit)
    if isinstance(answer, price.Unpriced):
        raise answer.error(asked.model.name)
    return answer, defaults


def refuse_beside(job: JobOptions, plan: PlanOptions) -> None:
    """Refuse options that a plan file already answers."""
    reading, made = Reading(), settings()
    for record in (job, plan):
        for field in fields(record):
            value = getattr(record, field.name)
            configured = field.name in made and made[field.name].value == value
            if field.name != "model" and value is not None and not configured:
                reading.fault(
                    field.name, str(value), f"nothing beside the plan file {job.model}, which says it"
                )
    reading.finish()
