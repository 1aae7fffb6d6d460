"""FlashAttention in Triton, as of 2023: behind the second version, the less so at narrow heads.

On H100 it reaches 403 and 395 TFLOP/s at head sizes 64 and 128, FlashAttention-3 497 and 648
(arXiv:2407.08608, fig. 5, 16k, not causal). It knows Hopper's own instructions as little as the second
version, and is taken to be behind it as on A100.
"""

from planner.techniques.attention.family import AttentionKernel, Slowdown

ENTRY = AttentionKernel(
    name="triton-2023",
    cite="T. Dao, arXiv:2307.08691, sec. 4.1: 1.3 to 1.5 times as slow forward, twice backward",
    slowdown=Slowdown(1.4, 2.0),
    slowdown_on={"hopper": Slowdown(1.7 * 1.4, 1.6 * 2.0)},
    narrow_as_wide=True,
)
