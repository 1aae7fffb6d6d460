"""A shared expert's products beside the messages to and from routed experts."""

from __future__ import annotations

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.techniques.settings.family import Setting


def with_shared_expert(model: ModelSpec, workload: Workload) -> bool:
    """Whether some layer has experts that see every token beside routed ones."""
    return any(experts.shared_inner for experts in model.expert_kinds)


ENTRY = Setting(
    name="shared_expert_overlap",
    about="whether the products of a shared expert run beside the messages to and from routed experts of the "
    "same micro-batch; they keep their gathered input then",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "megatron/core/transformer/moe/shared_experts.py, moe_shared_expert_overlap",
    values={"off": {"overlaps_shared_expert": False}, "on": {"overlaps_shared_expert": True}},
    matters=with_shared_expert,
)
