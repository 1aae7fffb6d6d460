"""What one would do without a search: sharded data parallelism, and the rule of thumb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from planner.cost.estimate import Estimate, estimate
from planner.cost.fit import safe_share
from planner.runtimes._family import Job, Runtime
from planner.search.choices import choices_of, fixed_degrees
from planner.search.scan import Scan
from planner.search.space import make_space


def baselines(
    job: Job, runtime: Runtime, fixed: Mapping[str, object], memory_limit: float | None, oom_risk: float
) -> Iterator[tuple[str, Estimate]]:
    """Price the baselines of a job: the fastest of each kind that fits, or the one that needs least memory.

    Yields
    ------
    tuple of (str, Estimate)
        ``data-parallel``: no model parallelism, the highest ZeRO stage that the runtime has.
        ``rule-of-thumb``: tensor parallelism inside the node, then the fewest pipeline stages that fit.
    """
    names = {name: fixed[name] for name in ("cp_method", "offload") if name in fixed}
    zero = max(runtime.zero_stages)
    flat = {"tp": 1, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "etp": 1, "zero": zero, **names}
    found = _best(job, runtime, flat, memory_limit, oom_risk)
    if found is not None:
        yield "data-parallel", found
    widest = max(block.mixer.heads for block in job.model.blocks.values())
    tensor = int(np.gcd(np.gcd(job.hardware.pool.scaleup_domain, widest), job.gpus))
    tensor = min(tensor, job.hardware.pool.gpus_per_node)
    thumb = {"tp": tensor, "cp": 1, "vpp": 1, "zero": 1 if 1 in runtime.zero_stages else zero, **names}
    best: Estimate | None = None
    for stages in (1, 2, 4, 8, 16, 32, 64):
        if job.gpus % (tensor * stages) or stages > job.model.num_layers:
            continue
        found = _best(job, runtime, {**thumb, "pp": stages}, memory_limit, oom_risk)
        best = found or best
        if found is not None and found.feasible:
            break
    if best is not None:
        yield "rule-of-thumb", best


def _best(
    job: Job, runtime: Runtime, fixed: Mapping[str, object], memory_limit: float | None, oom_risk: float
) -> Estimate | None:
    """Return the fastest safe plan with these degrees, or else the smallest one."""
    degrees, _ = fixed_degrees(fixed)
    capacity = float(job.hardware.pool.accelerator.memory_visible)
    capacity = min(capacity, memory_limit or capacity)
    limit = capacity * safe_share(oom_risk, runtime.traits.memory_spread)
    scan = Scan(job, runtime, make_space(job, degrees), choices_of(runtime, fixed), limit, capacity, keep=1)
    report = scan.run(lambda result: np.asarray(result.step))
    chosen = report.best[0] if report.best else report.smallest
    return estimate(replace(chosen.plan), job, runtime, memory_limit) if chosen is not None else None
