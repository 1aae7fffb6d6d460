"""The kernel takes keys and values in fewer heads than queries, and its result is used as it lies."""

from planner.techniques.attention_codes.family import AttentionCode

ENTRY = AttentionCode(
    name="plain",
    cite="Megatron-LM d98e8a64: megatron/core/extensions/transformer_engine.py, TEDotProductAttention",
)
