"""Products around Megatron's fused softmax: scores go through memory, scaled and masked by one kernel."""

from planner.techniques.attention.family import AttentionKernel

ENTRY = AttentionKernel(
    name="fused-softmax",
    cite="V. Korthikanti et al., arXiv:2205.05198; Megatron-LM: megatron/model/fused_softmax.py",
    keeps_scores=True,
    joins_softmax=True,
)
