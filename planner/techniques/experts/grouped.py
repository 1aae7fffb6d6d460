"""Grouped products of Transformer Engine or CUTLASS, into which scores are multiplied."""

from planner.techniques.experts.family import ExpertCode

ENTRY = ExpertCode(
    name="grouped",
    cite="Megatron-LM d98e8a64: megatron/core/transformer/moe/experts.py, TEGroupedMLP",
)
