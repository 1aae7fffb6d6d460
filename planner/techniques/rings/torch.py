"""PyTorch's ring: results are merged step by step, gradients go round in fp32."""

from planner.techniques.rings.family import RingAttention

ENTRY = RingAttention(
    name="torch",
    cite="PyTorch 2.13: torch/distributed/tensor/experimental/_context_parallel/_attention.py, _SDPAMerger "
    "and _templated_ring_attention_backward",
    fp32_gradients=True,
    merges_each_step=True,
)
