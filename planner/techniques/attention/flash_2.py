"""FlashAttention-2: better shares of work; it knows no instruction of Hopper or Blackwell.

On Hopper it reaches 35% of the peak. On Blackwell's datacentre chips runtimes whose kernel PyTorch chooses
run cuDNN's (pytorch, ``sdp_utils.cpp``, ``check_prefer_cudnn_attention``), except where sums have to come in
one order. Its rates there are medians at 4,096 to 16,384 tokens on a B200, each divided by what the curve of
the best kernel reaches there of its own end: 331 to 362 TFLOP/s forward at heads of 128
(meta-pytorch/tritonbench#171), 307 to 379 forward and 315 to 334 backward at heads of 64
(Dao-AILab/flash-attention#1589).
"""

from planner.techniques.attention.family import AttentionKernel, Slowdown

ENTRY = AttentionKernel(
    name="flash-2",
    cite="J. Shah et al., arXiv:2407.08608, sec. 1 and fig. 5",
    slowdown_on={"hopper": Slowdown(1.7, 1.6)},
    counts_buffers=True,
    ordered_rates=(408e12, 365e12),
)
