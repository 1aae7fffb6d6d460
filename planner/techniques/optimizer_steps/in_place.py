"""Fused kernels that read gradients as they are kept."""

from planner.techniques.optimizer_steps.family import OptimizerStep

ENTRY = OptimizerStep(
    name="in-place",
    cite="PyTorch 2.13: torch/optim/adam.py, _fused_adam",
)
