"""Codes of single laboratories with Megatron's degrees: kernels one by one, 16-bit gradients."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._common import EAGER, FIXED_SEGMENTS
from planner.calibrate.eras._era import Era, Settings

IN_HOUSE: Final[Settings] = {
    **EAGER,
    "attention": "flash-2",
    "gradient_dtype": "bf16",
    "reduce_dtype": "bf16",
    "logit_bytes": 17.5,
    "tp_exposed": 1.0,
    "dp_exposed": 1.0,
}

OVERLAPPED: Final[Settings] = {**IN_HOUSE, "dp_exposed": 0.3, "logit_bytes": 8.0}

# https://github.com/InternLM/InternEvo, internlm/model and solver/optimizer/hybrid_zero_optim.py.
INTERNEVO_2023: Final = Era(
    "internevo-2023",
    r"intern.?(evo|lm)",
    "megatron-lm",
    "InternEvo: the kernels of flash-attn and apex, norms that read fp32; ZeRO-1 with 16-bit gradients "
    "all-reduced behind backward, whole parameters owned by ranks and sent round before the next step "
    "(configs/7B_sft.py); the loss casts logits to fp32 and writes their gradient in place",
    traits={
        **OVERLAPPED,
        **FIXED_SEGMENTS,
        "fused_norm": True,
        "norm_reads_fp32": True,
        "fused_rope": True,
        "vocab_parallel_loss": True,
        "engine": "internevo-zero",
        "all_reduced_bytes": 2.0,
        "step_gathers_wait": True,
    },
    sequence_parallel=False,
    no_flash="unfused",
)

MEGATRON_LIKE_OVERLAPPED: Final = Era(
    "megatron-like-overlapped",
    r"colossal",
    "megatron-lm",
    "Colossal-AI: kernels one by one, Hugging Face's loss, ZeRO-1 whose traffic hides behind backward "
    "and whose step casts a rank's gradients to fp32 (zero/low_level/low_level_optim.py)",
    traits={**OVERLAPPED, "logit_bytes": 12.0, "step_bytes": 4.0},
    sequence_parallel=False,
    no_flash="unfused",
)

# Memory counted in https://github.com/Aleph-Alpha/scaling; half a GiB is a context with its kernels, of which
# what ran out in the sweep can tell no more than that it is small.
MEGATRON_LIKE: Final = Era(
    "megatron-like",
    r"in.?house|megatron.?like|megatron.?llama",
    "megatron-lm",
    "in-house code with Megatron's layouts: kernels one by one, logits not divided, bf16 gradients that "
    "ZeRO-1 casts to fp32 and all-reduces (https://github.com/Aleph-Alpha/scaling, core/optimizer)",
    traits={
        **IN_HOUSE,
        "all_reduced_bytes": 4.0,
        "sequence_regather": False,
        "unfused_norm_bytes": 6.0,
        "logit_bytes": 16.0,
        "loss_beside_backward": True,
        "bucket_elements": 5e8,
        "framework_bytes": 2.0**29,
    },
    sequence_parallel=False,
    no_flash="unfused",
    stage_cut="parameters",
)
