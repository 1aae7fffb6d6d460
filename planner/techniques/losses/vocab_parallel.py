"""Megatron-LM's chain of fp32 kernels on logits divided by tp, all but the cast of which write in place.

Forward the cast, the largest, the difference, the power, the sum and the quotient, 6 + 4 + 8 + 8 + 4 + 8
bytes of each logit; back the product and the cast, 8 + 6. Live are the 16-bit logits and their fp32 copy,
2 + 4. So it was until September 2022, and is since June 2024 (9634c0e4) where nothing is fused.
"""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="vocab-parallel",
    cite="M. Shoeybi et al., arXiv:1909.08053, sec. 3; Megatron-LM 9634c0e4: "
    "megatron/core/tensor_parallel/cross_entropy.py",
    logit_bytes=6.0,
    traffic=52.0,
)
