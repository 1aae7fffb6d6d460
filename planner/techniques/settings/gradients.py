"""The dtype in which gradients are kept and travel."""

from planner.techniques.settings.family import Setting

ENTRY = Setting(
    name="gradients",
    about="dtype in which gradients are summed over micro-batches, kept and reduced",
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553, "
    "core/distributed/distributed_data_parallel_config.py, grad_reduce_in_fp32",
    values={
        "fp32": {"gradient_dtype": "fp32", "reduce_dtype": "fp32"},
        "bf16": {"gradient_dtype": "bf16", "reduce_dtype": "bf16"},
    },
    numerics=True,
    evidence={"bf16": "recipes of Megatron-Bridge, all of which have it"},
)
