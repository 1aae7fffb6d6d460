"""Which values a search may take: the runtime's, or those that the user has set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from planner.inputs.model import ModelSpec
from planner.plan import MESH
from planner.runtimes.family import Job, Runtime
from planner.search.legality import Choices
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.methods import METHODS
from planner.techniques.offload import HOSTED, OFFLOADS
from planner.techniques.offload.family import Offload, read_offload

DEGREE_NAMES = (*MESH, "dp", "micro_batch")
"""Degrees that a user may fix."""


def hosted_names(model: ModelSpec) -> tuple[str, ...]:
    """Return choices of layers whose activations go to the host, between one and all but the one that runs.

    A scan prices these; refinement counts more closely.
    """
    most = max(1, model.num_layers - 1)
    counts = sorted({1, most, *(max(1, round(most * quarter / 4)) for quarter in (1, 2, 3))})
    return tuple(HOSTED.of(layers).spelled for layers in counts)


def fixed_degrees(fixed: Mapping[str, Any]) -> tuple[dict[str, int], tuple[int, ...] | None]:
    """Return the degrees and the split that the user has set."""
    degrees = {name: int(fixed[name]) for name in DEGREE_NAMES if fixed.get(name) is not None}
    split = fixed.get("stage_layers")
    return degrees, tuple(split) if isinstance(split, (tuple, list)) else None


def choices_of(runtime: Runtime, fixed: Mapping[str, Any], job: Job | None = None) -> Choices:
    """Return the technique names to combine: the user's own, or all that the runtime can run.

    Activations on the host are no choice of a row where the user leaves them open: the layers are counted for
    those that need it. Where the user says over how many ranks states are sharded, plans that shard nothing
    are none; where he does not, and the runtime can, they may also fill a domain of the ``job``'s network,
    with replicas in the others.
    """

    def either(name: str, offered: tuple[Any, ...]) -> tuple[Any, ...]:
        value = fixed.get(name)
        return offered if value is None else (value,)

    method = job.workload.method if job is not None else "full"
    beside = (name for name in runtime.offloads if searched_beside(read_offload(OFFLOADS, name), method))
    offload = either("offload", tuple(beside))
    asked = OFFLOADS.get(offload[0]) if len(offload) == 1 else None
    if asked is not None and asked.counted and job is not None:
        offload = hosted_names(job.model)
    sharding = tuple(stage for stage in runtime.zero_stages if stage > 0)
    spread = int(fixed.get("zero_shards") or 1) > 1 and sharding
    return Choices(
        zero=either("zero", sharding if spread else runtime.zero_stages),
        recompute=either("recompute", runtime.recomputes),
        sequence_parallel=either("sequence_parallel", (False, True)),
        cp_method=either("cp_method", context_methods(runtime, job)),
        schedule=either("schedule", runtime.schedules),
        offload=offload,
        domains=shard_domains(runtime, job) if job and fixed.get("zero_shards") is None else (),
    )


def searched_beside(offload: Offload, method: str) -> bool:
    """Whether a search tries an offload beside what fits without it, and not only where nothing does.

    A frozen base on the host fits on paper where the one printed run takes 1.63 times its price
    (`planner.report.unproven`): what is said to fit without it is surer.
    """
    return offload.searched and not (offload.fetches and METHODS[method].adapts)


def context_methods(runtime: Runtime, job: Job | None) -> tuple[str, ...]:
    """Return the methods of context parallelism that a search tries for sequences of the job's length."""
    length = job.workload.seq_len if job is not None else math.inf
    tried = (name for name in runtime.cp_methods if CONTEXT_METHODS[name].searched_from <= length)
    return tuple(tried) or ("ring",)


def shard_domains(runtime: Runtime, job: Job) -> tuple[int, ...]:
    """Return the accelerators of a node, a rack or a pod that groups of shards may fill."""
    if not runtime.hybrid_sharding:
        return ()
    domains = {int(tier.domain) for tier in job.hardware.pool.tiers if 1 < tier.domain < job.gpus}
    return tuple(sorted(domains))
