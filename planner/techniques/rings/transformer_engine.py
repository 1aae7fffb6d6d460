"""Transformer Engine's ring: results are merged beside the next step, on a stream of its own."""

from planner.techniques.rings.family import RingAttention

ENTRY = RingAttention(
    name="transformer-engine",
    aliases=("te",),
    cite="Transformer Engine d0067d0d: transformer_engine/pytorch/attention/dot_product_attention/"
    "context_parallel.py, cp_stream",
)
