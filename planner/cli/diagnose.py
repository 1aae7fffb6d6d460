"""``planner diagnose``: why a run is slow, or runs out of memory, and what else would be faster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli.explain import priced, read_saved
from planner.cli.from_file import AnyJobOptions, FromOption, asked_of
from planner.cli.mfu import above_zero, refuse_beside
from planner.cli.options import (
    Format,
    OutputOptions,
    PlanOptions,
    StepTimeOption,
    TokenRateOption,
    spread,
    text_option,
)
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.deferred import deferred
from planner.errors import InputError
from planner.files import is_plan_file
from planner.question.reading import Reading

with deferred():
    from planner.cli import estimate
    from planner.cost import price
    from planner.inputs import load, run_logs
    from planner.report import diagnose as report_diagnose

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.inputs.run_logs import RunLog


ENDINGS: Final = (".sh", ".sbatch", ".yaml", ".yml", ".json", ".toml", ".py")
"""How names of files end that are no names of models."""


@spread
def diagnose(
    job: AnyJobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    context: typer.Context,
    source: FromOption = None,
    step_time: StepTimeOption = None,
    tokens_per_s: TokenRateOption = None,
    oom: Annotated[bool, typer.Option("--oom", help="The run ran out of device memory.")] = False,
    log: Annotated[
        Path | None,
        text_option(
            "FILE",
            "A log of Megatron, NeMo, torchtitan, DeepSpeed, nanotron, Composer, the Hugging Face "
            "trainer or the planner's own scripts.",
        ),
    ] = None,
) -> None:
    """Name the likeliest causes of a slow or out-of-memory run, and plans that would be faster.

    MODEL may also be a plan file, or a launch file as for --from. The measurement is compared with the
    estimate; each possible cause is priced, and the closest is named first.
    """
    reading = Reading()
    seconds = above_zero(reading, "--step-time", step_time)
    tokens = above_zero(reading, "--tokens-per-s", tokens_per_s)
    if step_time is not None and tokens_per_s is not None:
        reading.fault("--tokens-per-s", "--step-time", "one of the two")
    if job.model.endswith(ENDINGS) and not Path(job.model).exists():
        reading.fault("MODEL", f"no file {job.model}", "a plan, a launch file, or a model with its options")
    found = reading.attempt(run_logs.read_run_log, log) if log is not None else None
    if not reading.problems and not (seconds or tokens or oom or found):
        reading.fault("diagnose", "nothing measured", "--step-time, --tokens-per-s, --oom or --log FILE")
    reading.finish()
    answer = answer_of(job, plan, source, context, shown.quiet)
    if tokens is not None:
        seconds = answer.job.workload.tokens_per_step / tokens
    told = report_diagnose.diagnose(answer, observed(answer, seconds, oom, found))
    if shown.output is Format.json:
        emit_document(report_diagnose.diagnosis_document(told))
    elif shown.output is Format.csv:
        emit_rows([dict(row) for row in report_diagnose.diagnosis_document(told)["causes"]], shown.output)
    else:
        emit_page(report_diagnose.diagnosis_page(told), shown.output)


def observed(
    answer: Estimate, seconds: float | None, oom: bool, log: RunLog | None
) -> report_diagnose.Observed:
    """Return what is known of a run; what was said on the command line goes before its log."""
    if log is None:
        return report_diagnose.Observed(seconds, None, oom)
    work = answer.job.workload
    logged = log.seconds(work.global_batch, work.seq_len, answer.job.gpus)
    median = f", median of {log.steps} steps" * (log.steps > 1)
    words = f"{log.source}{median}" if log.steps else "its log"
    return report_diagnose.Observed(
        seconds if seconds is not None else logged,
        log.peak,
        oom or log.out_of_memory,
        words if seconds is None else "",
    )


def answer_of(
    job: AnyJobOptions, plan: PlanOptions, source: Path | None, context: Any, quiet: bool
) -> Estimate:
    """Return the price of a plan file, of a launch file, or of options.

    Raises `InputError` if something is wrong; `UnsupportedPlan` if the plan's degrees leave no price.
    """
    path = Path(job.model)
    if job.model and source is None and is_plan_file(path):
        refuse_beside(job, plan)
        return priced(read_saved(path), path)
    if job.model and source is None and is_launch_file(job.model):
        job, source = job.but(model=""), path
    request = asked_of(source, job, plan, context)
    whole, chosen, runtime, _, names = request.read(estimate.read)
    for line in [] if quiet else request.notes():
        to_stderr(f"note: {line}")
    answer = price.price(chosen, whole, runtime, names.memory_limit)
    if isinstance(answer, price.Unpriced):
        raise answer.error(whole.model.name)
    return answer


def is_launch_file(text: str) -> bool:
    """Whether a text is the path of a file that is no model."""
    try:
        if not Path(text).is_file():
            return False
        load.load_model(text)
    except InputError:
        return True
    except OSError:
        return False
    return False
