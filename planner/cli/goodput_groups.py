"""Launch files of torchft's replica groups, which go on while one of them recovers."""

from __future__ import annotations

import typer

from planner.cli.launch import priced
from planner.cost.reliability import Reliable
from planner.dataclasses import replace
from planner.plan import Plan
from planner.question.launch import wanted_target, write_files
from planner.question.launched import Launch
from planner.question.question import Question
from planner.runtimes.family import Job
from planner.runtimes.torchtitan.semi_sync import SemiSync, semi_sync_runtime


def write_groups(best: Reliable, asked: Question, launch: Launch) -> None:
    """Write the launch files of torchft's replica groups: a folder for each.

    Raises `UnsupportedPlan` if the runtime cannot run a group alone.
    """
    answer, groups = best.answer, int(best.replicas)
    plan, job = group_of(best)
    names = asked.names(job.hardware)
    alone = priced(plan, job, answer.runtime, names)
    for number in range(groups):
        way = SemiSync("", 1, 1, 0, False, groups, number, best.mode_step - answer.step, least=1)
        runtime = semi_sync_runtime(answer.runtime, way)
        place = replace(launch, out=launch.out / f"group-{number}")
        wanted = replace(wanted_target(place, answer.runtime), runtime=runtime)
        typer.echo(write_files(replace(alone, runtime=runtime), names, wanted, place), err=True)


def group_of(best: Reliable) -> tuple[Plan, Job]:
    """Return the plan and the job of one of torchft's replica groups."""
    answer, groups = best.answer, int(best.replicas)
    work = answer.job.workload
    shared = work.model_copy(update={"global_batch": work.global_batch // groups})
    job = replace(answer.job, gpus=best.gpus // groups, workload=shared)
    dp = answer.plan.dp / groups
    return replace(answer.plan, dp=dp, zero_shards=dp * answer.plan.cp), job
