"""Liger's, head and loss in one: parts of as many logits as the hidden state has elements, gradients at once.

A part's logits stay in 16 bits, read twice, with their gradient written in their place; those of the hidden
state and of the head's weights are made of it before the next part comes.
"""

from planner.techniques.losses.family import Loss

ENTRY = Loss(
    name="fused-linear",
    aliases=("liger",),
    cite="arXiv:2410.10989, sec. 3.2; linkedin/Liger-Kernel 00eba634: "
    "src/liger_kernel/ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward",
    logit_bytes=2.0,
    traffic=6.0,
    by_width=True,
    gradient_bytes=2.0,
)
