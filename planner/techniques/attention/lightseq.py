"""LightSeq's kernels: one in Triton forward, FlashAttention-2 backward on whole blocks.

On these it reaches 0.63 of peak in place of the 0.57 of causal ones (fig. 6).
"""

from planner.techniques.attention.family import AttentionKernel, Slowdown

ENTRY = AttentionKernel(
    name="lightseq",
    cite="T. Dao, arXiv:2307.08691, fig. 6; RulinShao/LightSeq, lightseq/lightseq_async_attn.py",
    slowdown=Slowdown(1.4, 0.57 / 0.63),
    slowdown_on={"hopper": Slowdown(2.38, 1.6 * 0.57 / 0.63)},
)
