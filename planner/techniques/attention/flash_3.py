"""The best fused kernel that the accelerator has: FlashAttention-3 on Hopper, cuDNN's on Blackwell."""

from planner.techniques.attention.family import AttentionKernel

ENTRY = AttentionKernel(
    name="flash-3",
    cite="J. Shah et al., arXiv:2407.08608",
    counts_buffers=True,
)
