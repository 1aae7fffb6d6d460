"""AdamW: two fp32 moments and an fp32 master weight."""

from planner.techniques.optimizers.family import Optimizer

ENTRY = Optimizer(
    name="adamw", cite="arXiv:1711.05101", states=2, state_bytes=4.0, precision_aware=True,
    aliases=("adam", "fused-adam"),
)  # fmt: skip
