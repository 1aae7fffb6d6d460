"""PyTorch's AdamW without a fused kernel: the roots of all second moments at once."""

from planner.techniques.optimizer_steps.family import OptimizerStep

ENTRY = OptimizerStep(
    name="foreach",
    cite="PyTorch 2.13: torch/optim/adam.py, _multi_tensor_adam",
    step_bytes=4.0,
)
