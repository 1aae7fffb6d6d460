"""Products around a softmax of several kernels: scores go through memory."""

from planner.techniques.attention.family import AttentionKernel

ENTRY = AttentionKernel(
    name="unfused",
    cite="V. Korthikanti et al., arXiv:2205.05198, sec. 4.1",
    keeps_scores=True,
)
