"""The first FlashAttention: scores stay on the chip."""

from planner.techniques.attention.family import AttentionKernel, Slowdown

ENTRY = AttentionKernel(
    name="flash-1",
    cite="T. Dao, arXiv:2307.08691, sec. 4.1: the second version takes 0.53 of its time",
    slowdown=Slowdown(1.89, 1.89),
    slowdown_on={"hopper": Slowdown(3.2, 3.0)},
)
