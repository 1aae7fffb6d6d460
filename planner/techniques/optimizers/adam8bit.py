"""8-bit Adam: moments quantised in blocks of 2,048 with an fp32 scale each."""

from planner.techniques.optimizers.family import Optimizer

ENTRY = Optimizer(
    name="adam8bit",
    cite="arXiv:2110.02861",
    states=2,
    state_bytes=1.0 + 4.0 / 2048,
    aliases=("adamw8bit", "adam-8bit"),
)
