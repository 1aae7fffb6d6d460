"""A plan whose passes run in an order of its own, which PyTorch's pipelining reads from a file."""

from __future__ import annotations

from typing import Final

from planner.dataclasses import replace
from planner.plan import Plan
from planner.runtimes.family import Command, Job
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.torchtitan.files import torchtitan_command
from planner.runtimes.torchtitan.schedules import SCHEDULES

ORDER: Final = "schedule.csv"
"""The order's file."""

SCHEDULE_FLAG: Final = "--parallelism.pipeline_parallel_schedule"

IN_A_V: Final = ("zb-v", "dualpipe-v")
"""Schedules whose name tells torchtitan that a rank's two stages stand in a V."""


def order_command(plan: Plan, job: Job, version: str, order: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts a plan whose ranks run their passes as ``order`` says.

    The name of the schedule only places the stages then. An order has its weight gradients apart, which
    compiled layers cannot give, so that nothing is compiled.

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``torchtitan/distributed/pipeline_parallel.py``, ``build_pipeline_schedule``.
    """
    command = torchtitan_command(plan, job, version, {**changes, "compiled": False})
    name = SCHEDULES[plan.schedule].name if plan.schedule in IN_A_V else "PipelineScheduleMulti"
    flags = list(command.program)
    if SCHEDULE_FLAG in flags:
        place = flags.index(SCHEDULE_FLAG)
        del flags[place : place + 2]
    place = flags.index("--config") + 2 if "--config" in flags else len(flags)
    flags[place:place] = [SCHEDULE_FLAG, name, f"{SCHEDULE_FLAG}_csv", ORDER]
    note = (
        f"{ORDER} has the order of the passes, made for this plan; it replaces the schedule {plan.schedule}. "
        "It splits backward, which compiled layers cannot: compile is off, and the price has fused "
        "elementwise kernels all the same. PyTorch calls its reader of such files internal."
    )
    files = {**(command.files or {}), ORDER: order}
    return replace(command, program=tuple(flags), files=files, notes=(*command.notes, note))
