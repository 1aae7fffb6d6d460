"""What eras of several families have in common: traits of kernels, gradients and overlap."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._era import Settings

# What a code without a run is taken to reach: the geometric mean over those with runs, 1 where nothing was
# fitted, whose logarithms spread by 0.06. Recipes, whose rates stand with the accelerators, do not count.
USUAL: Final[Settings] = {"compute_derate": 0.96}

EAGER: Final[Settings] = {
    "fused_norm": False,
    "fused_activation": False,
    "fused_rope": False,
    "vocab_parallel_loss": False,
    "fused_weight_gradient": False,
    "step_copies": "never",
}

# The loss is a chain of fp32 kernels (megatron/mpu/cross_entropy.py): forward the cast, the largest,
# the difference, the power, the sum and the quotient, 6 + 4 + 8 + 8 + 4 + 8 bytes; back the product and the
# cast, 8 + 6.
GPT_2021: Final[Settings] = {
    "loss_traffic": 52.0,
    "attention": "fused-softmax",
    "fused_rope": False,
    "dropout": True,
    "fused_weight_gradient": False,
    "tp_exposed": 1.0,
    "dp_exposed": 1.0,
    "step_copies": "never",
}

FP16_GRADIENTS: Final[Settings] = {"gradient_dtype": "fp16", "reduce_dtype": "fp16"}

BF16_GRADIENTS: Final[Settings] = {"gradient_dtype": "bf16", "reduce_dtype": "bf16"}

# Segments of PyTorch's allocator that cannot grow: a segment of which a part is in use serves tensors of no
# other size. Fitted to what ran out in the layouts sweep; other codes with such segments bear less.
FIXED_SEGMENTS: Final[Settings] = {"reserve_share": 0.3}
