"""DeepSpeed, alone and under forks of Megatron-LM."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._common import EAGER, FIXED_SEGMENTS, FP16_GRADIENTS, GPT_2021, USUAL
from planner.calibrate.eras._era import SINCE_HOPPER, Era, Settings

MEGATRON_ON_ZERO: Final[Settings] = {
    **GPT_2021,
    "fused_norm": True,
    "fused_activation": True,
    "early_stop": False,
}

_FORKS = r"megatron.?deepspeed|gpt.?neox|\bneox\b"

_SPELLINGS = r"deepspeed|zero.?[123]\b|zero\+\+|zero.?(infinity|offload)|\bds\b"

MEGATRON_DEEPSPEED_2023: Final = Era(
    "megatron-deepspeed-2023",
    _FORKS,
    "megatron-lm",
    "the same forks since flash attention, as on Hopper and later",
    traits={
        **USUAL,
        "attention": "flash-2",
        "fused_rope": False,
        "fused_weight_gradient": False,
        "step_copies": "never",
        "tp_exposed": 1.0,
        "dp_exposed": 1.0,
        "gradient_copy_bytes": 2.0,
        "engine": "deepspeed-zero",
        "live_elements": 1e9,
        "bucket_elements": 5e8,
    },
    sequence_parallel=False,
    gpus=SINCE_HOPPER,
    measured=False,
)

MEGATRON_DEEPSPEED_ZERO3: Final = Era(
    "megatron-deepspeed-zero3",
    _FORKS,
    "deepspeed",
    "DeepSpeed's fork of Megatron-LM on its ZeRO-3 engine, 2022-23: no pipeline",
    traits=MEGATRON_ON_ZERO,
    half_traits=FP16_GRADIENTS,
    precision="fp16",
    zero="3",
    sequence_parallel=False,
    zero3_only=True,
    lacks=("pp",),
)

MEGATRON_DEEPSPEED: Final = Era(
    "megatron-deepspeed",
    _FORKS,
    "megatron-lm",
    "BigScience's and DeepSpeed's forks of Megatron-LM, 2021-22; ZeRO-1 beside pipeline parallelism; "
    "in bf16 gradients are summed in fp32 beside the 16-bit ones and reduced through flat fp32 buckets "
    "(deepspeed/runtime/bf16_optimizer.py), in fp16 a step copies the gradients of a rank to one flat "
    "fp32 buffer (zero/stage_1_and_2.py)",
    traits={
        **GPT_2021,
        "scattered_messages": True,
        "gradient_copy_bytes": 2.0,
        "engine": "deepspeed-zero",
        "live_elements": 1e9,
        "bucket_elements": 5e8,
        "flat_buckets": 1.0,
        "held_share": FIXED_SEGMENTS["reserve_share"],
    },
    half_traits={**FP16_GRADIENTS, "gradient_copy_bytes": 0.0, "flat_buckets": 0.0, "step_bytes": 4.0},
    precision="fp16",
    sequence_parallel=False,
)

DEEPSPEED_2021: Final = Era(
    "deepspeed-2021",
    r"^deepspeed v?0\.(3|4|5\.[0-4])\b",
    "deepspeed",
    "DeepSpeed's ZeRO-3 before release 0.5.5, under Megatron's models: each parameter is gathered by "
    "itself, all work done, as a list of parts",
    traits=MEGATRON_ON_ZERO,
    half_traits=FP16_GRADIENTS,
    precision="fp16",
    zero="3",
    sequence_parallel=False,
)

DEEPSPEED_2023: Final = Era(
    "deepspeed-2023",
    _SPELLINGS,
    "deepspeed",
    "DeepSpeed with flash attention and traffic half hidden, as on Hopper and later",
    zero="3",
    sequence_parallel=False,
    no_flash="unfused",
    gpus=SINCE_HOPPER,
    measured=False,
)

DEEPSPEED: Final = Era(
    "deepspeed",
    _SPELLINGS,
    "deepspeed",
    "DeepSpeed ZeRO with eager PyTorch or Hugging Face models",
    traits={**EAGER, "attention": "unfused", "dp_exposed": 1.0},
    half_traits=FP16_GRADIENTS,
    zero="3",
    sequence_parallel=False,
    no_flash="unfused",
)
