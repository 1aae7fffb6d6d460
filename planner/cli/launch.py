"""``planner emit``: the launch files of a plan; ``search --emit`` writes those of its best."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.notes import vendor_notes
from planner.cli.options import ForceOption, PlanArgument, QuietOption, VerboseOption, text_option
from planner.cli.progress import Progress
from planner.cli.versions import version_notes
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.errors import Infeasible, UnsupportedPlan
from planner.files import write_whole
from planner.question.launched import Launch
from planner.question.reading import Reading
from planner.units import GIB

with deferred():
    from planner import rules
    from planner.cli import plans, tables
    from planner.cost import price
    from planner.question import formats
    from planner.question import launch as question_launch
    from planner.report import plan_file

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.plan import Plan
    from planner.question.question import Question
    from planner.report.plan_file import Names, PlanFile
    from planner.runtimes.family import Job, Runtime

TargetOption = Annotated[
    str | None,
    text_option(
        "NAME",
        "What reads the files: a runtime, trl, axolotl or llama-factory. [default: the plan's runtime]",
        "--target",
    ),
]
LauncherOption = Annotated[
    str,
    typer.Option(
        "--launcher",
        metavar="NAME",
        help="What starts them: torchrun, slurm, kubernetes, skypilot or ray.",
    ),
]
VersionOption = Annotated[
    str | None, text_option("RELEASE", "Release of the target. [default: the plan's]", "--target-version")
]
SmokeOption = Annotated[
    bool,
    typer.Option(
        "--smoke",
        help="Make the files run twenty steps on synthetic data, unless SMOKE=0 is set.",
    ),
]


def emit(
    plan: PlanArgument,
    out: Annotated[Path, typer.Option(metavar="DIR", help="The folder to write.")],
    target: TargetOption = None,
    launcher: LauncherOption = "torchrun",
    target_version: VersionOption = None,
    smoke: SmokeOption = False,
    force: ForceOption = False,
    unfit: Annotated[
        bool, typer.Option("--unfit", help="Write the files even if the plan does not fit.")
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write the files that start a saved plan, all of them or none.

    The files read what only you know from the environment when they start: DATA_PATH, TOKENIZER_PATH,
    OUTPUT_DIR, ACCOUNT, PARTITION and IMAGE. SMOKE=1 makes a short trial run of them.
    """
    saved = plans.read_plan(plan)
    reading = Reading()
    saved = in_release(saved, target, target_version, reading)
    formats.check_precision(saved.job.hardware, saved.job.workload, reading)
    reading.finish()
    launch = Launch(out, target, launcher, target_version, force, smoke)
    wanted = question_launch.wanted_target(launch, saved.runtime)
    clusters = [saved.job.hardware]
    notes = [f"note: {line}" for line in (*saved.notes, *vendor_notes(clusters), *version_notes(clusters))]
    if wanted.runtime.name != saved.runtime.name:
        notes.append(_told_apart(saved.runtime, wanted.runtime))
    with Progress(quiet, verbose) as progress:
        for note in notes:
            progress.tell(note)
        progress(0.0, f"pricing {plan}")
        answer = priced(saved.plan, saved.job, wanted.runtime, saved.names, unfit)
        if not answer.feasible:
            needs, has = answer.peak / GIB, answer.capacity / GIB
            progress.tell(f"warning: the plan needs {needs:.1f} GiB of {has:.1f}: expect it to run out")
        progress(0.5, f"writing {out}")
        order = "\n".join(saved.order) + "\n" if saved.order is not None else None
        if order is not None and wanted.runtime.order_command is None:
            raise UnsupportedPlan(f"{wanted.runtime.name} takes no order of passes that was made for a plan")
        done = question_launch.write_files(answer, saved.names, wanted, launch, order)
    progress.tell(done)


def in_release(saved: PlanFile, target: str | None, version: str | None, reading: Reading) -> PlanFile:
    """Return a saved plan on the release of its own runtime that ``--target-version`` names."""
    if version is None or target is not None:
        return saved
    where = (saved.job.hardware.pool.accelerator.name, saved.job.workload.precision)
    found = reading.attempt(
        tables.named_runtime, f"{saved.runtime.name}@{version}", *where, "--target-version"
    )
    if found is None:
        return saved
    own: dict[str, Any] = dict(
        tables.changed(saved.runtime.traits, tables.plain_traits(saved.runtime, *where))
    )
    return replace(saved, runtime=found.with_traits(**own))


def priced(plan: Plan, job: Job, runtime: Runtime, names: Names, unfit: bool = False) -> Estimate:
    """Return the estimate of a plan on the runtime that its files are for.

    Raises `UnsupportedPlan` if the runtime cannot run it; the message has every reason; `Infeasible` if it
    does not fit, and ``unfit`` is false.
    """
    answer = price.price(plan, job, runtime, names.memory_limit)
    if isinstance(answer, price.Unpriced) or answer.violations:
        raise UnsupportedPlan(rules.refusal(runtime.name, answer.violations))
    if not answer.feasible and not unfit:
        raise Infeasible("the plan does not fit; --unfit writes its files nevertheless")
    return answer


def _told_apart(saved: Runtime, target: Runtime) -> str:
    lost = saved.traits != tables.runtimes()[saved.name].traits
    return f"note: the plan was saved for {saved.name}; the run card has its price on {target.name}" + (
        f", without the traits that were set for {saved.name}" if lost else ""
    )


def write_best(
    best: Estimate,
    asked: Question,
    save: Path | None,
    launch: Launch | None,
    force: bool,
    order: str | None = None,
) -> None:
    """Write the plan file and the launch files of the best plan, where asked for; with its order, if made."""
    names = asked.names(best.job.hardware)
    if save is not None:
        write_whole(
            save, plan_file.plan_yaml(best.job, best.runtime, best.plan, names, order), force, "--save"
        )
    if launch is not None:
        wanted = question_launch.wanted_target(launch, best.runtime)
        if wanted.runtime.name != best.runtime.name:
            typer.echo(_told_apart(best.runtime, wanted.runtime), err=True)
            best = priced(best.plan, best.job, wanted.runtime, names)
            order = order if wanted.runtime.order_command is not None else None
        typer.echo(question_launch.write_files(best, names, wanted, launch, order), err=True)
