"""Keys of torchtitan's ``parallelism`` for one axis each: written into configs, read by ``--from``."""

from __future__ import annotations

from typing import Final

from planner.plan import Plan

DEGREES: Final = {
    "tp": "tensor_parallel_degree",
    "cp": "context_parallel_degree",
    "pp": "pipeline_parallel_degree",
    "ep": "expert_parallel_degree",
    "etp": "expert_tensor_parallel_degree",
}
"""The key of each degree of a plan."""

REPLICAS: Final = "data_parallel_replicate_degree"
SHARDS: Final = "data_parallel_shard_degree"
"""Keys of the copies of the states, and of the data-parallel ranks that each is spread over."""


def degree_keys(plan: Plan, *names: str) -> dict[str, int]:
    """Return the keys of the degrees that are named with their values, for a scalar plan."""
    return {DEGREES[name]: int(getattr(plan, name)) for name in names}


def shard_keys(plan: Plan) -> dict[str, int]:
    """Return how the data-parallel ranks of a scalar plan are copies and shards."""
    shards = plan.cp if plan.zero == 0 else plan.zero_shards
    return {REPLICAS: int(plan.dp * plan.cp / shards), SHARDS: int(shards / plan.cp)}
