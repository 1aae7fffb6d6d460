"""Numbers of accelerators that no product of legal degrees makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.runtimes._family import Job
from planner.search.choices import fixed_degrees
from planner.search.optimise import Request
from planner.search.space import make_space

FARTHEST: Final = 64
"""How far from what was asked a count is looked for."""


def check_reached(request: Request) -> None:
    """Refuse counts of accelerators over which neither batch nor model can be spread, where others would do.

    Raises
    ------
    InputError
        With the nearest counts that some product of degrees makes.
    """
    jobs = list({(job.hardware.name, job.gpus): job for job, _ in request.jobs()}.values())
    if any(_reached(job, job.gpus, request.fixed) for job in jobs):
        return
    job, counts = jobs[0], sorted({job.gpus for job in jobs})
    below = range(counts[0] - 1, max(0, counts[0] - FARTHEST), -1)
    above = range(counts[-1] + 1, counts[-1] + FARTHEST)
    near = [next((n for n in side if _reached(job, n, request.fixed)), None) for side in (below, above)]
    choices = " or ".join(str(count) for count in near if count is not None)
    if choices:
        work = request.workload
        expected = (
            f"a number that is tp · pp · cp · dp with degrees that divide {work.global_batch} sequences "
            f"and the heads and layers of {request.model.name}"
        )
        raise InputError(Problem("--gpus", ", ".join(map(str, counts)), expected, choices))


def _reached(job: Job, gpus: int, fixed: Mapping[str, Any]) -> bool:
    degrees, split = fixed_degrees(fixed)
    return make_space(replace(job, gpus=gpus), degrees, split).size > 0
