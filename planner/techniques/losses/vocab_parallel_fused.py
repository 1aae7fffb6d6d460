"""Megatron-core's own, compiled, on logits divided by tp: they, an fp32 copy, and their powers."""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="vocab-parallel-fused",
    cite="Megatron-LM d98e8a64: megatron/core/fusions/fused_cross_entropy.py",
    logit_bytes=10.0,
    traffic=36.0,
)
