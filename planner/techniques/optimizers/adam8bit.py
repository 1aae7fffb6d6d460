"""8-bit Adam: moments quantised in blocks of 256 with an fp32 scale each."""

from planner.techniques.optimizers.family import Optimizer

ENTRY = Optimizer(
    name="adam8bit",
    cite="arXiv:2110.02861; blocks of 256 in torchao 0.18, torchao/optim/adam.py, where its paper has 2,048",
    states=2,
    state_bytes=1.0 + 4.0 / 256,
    aliases=("adamw8bit", "adam-8bit"),
)
