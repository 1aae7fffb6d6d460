"""Megatron-core's: gradients of fewer bits are cast to fp32, low-bit weights by way of 16 bit."""

from planner.techniques.optimizer_steps.family import OptimizerStep

ENTRY = OptimizerStep(
    name="megatron-core",
    cite="Megatron-LM d98e8a64: megatron/core/optimizer/distrib_optimizer.py, "
    "_copy_model_grads_to_main_grads; Transformer Engine d0067d0d: "
    "transformer_engine/pytorch/tensor/utils.py, quantize_master_weights",
    casts=True,
)
