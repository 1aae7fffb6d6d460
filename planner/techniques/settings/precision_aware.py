"""Whether Megatron-core's optimizer is the precision-aware one."""

from __future__ import annotations

from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.techniques.settings.family import Setting


def adam_in_bf16(model: ModelSpec, workload: Workload) -> bool:
    """Whether weights rest in bf16 and AdamW steps them: other jobs are stepped as without it."""
    return workload.precision == "bf16" and workload.optimizer == "adamw"


ENTRY = Setting(
    name="precision_aware",
    about="whether AdamW takes gradients in the dtype that they have, and keeps of each fp32 master weight "
    "only the 16 bits that its bf16 weight lacks; what it computes is the same",
    cite="https://github.com/NVIDIA/TransformerEngine/blob/d0067d0d/transformer_engine/pytorch/optimizers/"
    "fused_adam.py, store_param_remainders",
    values={"off": {"precision_aware": False}, "on": {"precision_aware": True}},
    matters=adam_in_bf16,
    evidence={"on": "bf16 recipes of Megatron-Bridge, all of which have it"},
)
