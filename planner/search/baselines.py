"""What one would do without a search: sharded data parallelism, and the rule of thumb."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from planner.cost.estimate import Estimate
from planner.dataclasses import replace
from planner.plan import MESH
from planner.runtimes.family import Job, Runtime
from planner.search.known import priced
from planner.search.request import SearchRequest, scan_of
from planner.search.space import widest_mixer

FLAT: Final = dict.fromkeys(MESH, 1)
"""Degrees of a plan that is data parallel alone."""


def baselines(request: SearchRequest, job: Job, runtime: Runtime) -> Iterator[tuple[str, Estimate]]:
    """Price the baselines of a job: the fastest of each kind that fits, or the one that needs least memory.

    What the user has fixed holds for them too; one that cannot be had so is left out.

    Yields
    ------
    tuple of (str, Estimate)
        ``data-parallel``: no model parallelism, the highest ZeRO stage that the runtime has.
        ``rule-of-thumb``: tensor parallelism inside the node, then the fewest pipeline stages that fit.
    """
    fixed = request.fixed
    zero = max(runtime.zero_stages)
    if all(fixed.get(axis, degree) == degree for axis, degree in FLAT.items()):
        found = _best(request, job, runtime, {**FLAT, "zero": zero})
        if found is not None:
            yield "data-parallel", found
    widest = widest_mixer(job.model)
    taken = math.prod(int(str(fixed.get(axis, 1))) for axis in ("pp", "cp", "dp"))
    tensor = int(np.gcd(np.gcd(job.hardware.pool.scaleup_domain, widest), max(1, job.gpus // taken)))
    tensor = min(tensor, job.hardware.pool.gpus_per_node)
    thumb = {"tp": tensor, "cp": 1, "vpp": 1, "zero": 1 if 1 in runtime.zero_stages else zero}
    best: Estimate | None = None
    for stages in (1, 2, 4, 8, 16, 32, 64) if "pp" not in fixed else (fixed["pp"],):
        found = _best(request, job, runtime, {**thumb, "pp": stages})
        best = found or best
        if found is not None and found.feasible:
            break
    if best is not None:
        yield "rule-of-thumb", best


def _best(
    request: SearchRequest, job: Job, runtime: Runtime, wanted: Mapping[str, object]
) -> Estimate | None:
    """Return the fastest safe plan with these axes and those of the user, or else the smallest one."""
    asked = replace(request, fixed={**wanted, **request.fixed}, uniform=True)
    scan = scan_of(asked, job, runtime, keep=1)
    report = scan.run(lambda result: np.asarray(result.step))
    chosen = report.best[0] if report.best else report.smallest
    if chosen is None:
        return None
    plan = replace(chosen.plan, stage_layers=scan.split)
    return priced(plan, job, runtime, request.memory_limit)
