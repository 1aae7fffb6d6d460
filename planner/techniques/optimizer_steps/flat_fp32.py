"""DeepSpeed's ZeRO: a rank's gradients are copied to one flat fp32 buffer."""

from planner.techniques.optimizer_steps.family import OptimizerStep

ENTRY = OptimizerStep(
    name="flat-fp32",
    cite="DeepSpeed 0.19.8: deepspeed/runtime/zero/stage_1_and_2.py, step, single_grad_partition",
    step_bytes=4.0,
)
