"""Numbers of accelerators that no product of legal degrees makes."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.rules import divides
from planner.runtimes.family import Job
from planner.runtimes.offered import head_counts
from planner.search.request import SearchRequest
from planner.search.space import make_space

FARTHEST: Final = 64
"""How far from what was asked a count is looked for."""

EASIEST: Final = {"vpp": 1, "ep": 1, "etp": 1, "micro_batch": 1}
"""Degrees that no rule on counts of accelerators asks more of."""


def check_reached(request: SearchRequest) -> None:
    """Refuse counts of accelerators over which neither batch nor model can be spread, where others would do.

    Axes that the user has fixed are left aside: the answer of the search tells which rules they break.

    Raises `InputError` with the nearest counts that some product of degrees makes.
    """
    jobs = list({(job.hardware.name, job.gpus): job for job, _ in request.jobs()}.values())
    if any(_reached(job, job.gpus) for job in jobs):
        return
    job, counts = jobs[0], sorted({job.gpus for job in jobs})
    below = range(counts[0] - 1, max(0, counts[0] - FARTHEST), -1)
    above = range(counts[-1] + 1, counts[-1] + FARTHEST)
    near = [next((n for n in side if _reached(job, n)), None) for side in (below, above)]
    choices = " or ".join(str(count) for count in near if count is not None)
    if choices:
        work = request.workload
        expected = (
            f"a number that is tp · pp · cp · dp with degrees that divide the batch of "
            f"{work.global_batch} sequences, their length, and the heads of {request.model.name}"
        )
        raise InputError(Problem("--gpus", ", ".join(map(str, counts)), expected, choices))


def _reached(job: Job, gpus: int) -> bool:
    rows = make_space(replace(job, gpus=gpus), EASIEST).rows
    heads, _ = head_counts(job.model)
    parts = np.where(np.greater(rows.cp, 1), 2.0 * rows.cp, 1.0)
    return bool(np.any(divides(rows.tp, heads) & divides(parts, job.workload.seq_len)))
