"""Kernels of Transformer Engine for scores, choices and balancing loss."""

from planner.techniques.routers.family import RouterCode

ENTRY = RouterCode(
    name="fused",
    cite="Transformer Engine d0067d0d: transformer_engine/pytorch/router.py; Megatron-LM d98e8a64: "
    "megatron/core/transformer/moe/moe_utils.py",
)
