"""Megatron-LM from 2020 on, and programs that have its layouts and kernels."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._common import BF16_GRADIENTS, EAGER, FP16_GRADIENTS, GPT_2021, USUAL
from planner.calibrate.eras._era import Era

_SINCE_2023 = r"20(2[3-9]|[3-9]\d)|\b[rv]?0\.\d|\b2[3-9]\.\d\d|\bmain\b"
"""Words of versions since 2023: a year, a release of Megatron-core, a container."""

ZERO_BUBBLE_2023: Final = Era(
    "zero-bubble-2023",
    r"zero.?bubble",
    "megatron-lm",
    "Megatron-LM fork of arXiv:2401.10241, interleaved to single layers; the optimizer validates later",
    traits={**GPT_2021, "fused_weight_gradient": True, "stages_end_apart": True},
    half_traits=FP16_GRADIENTS,
    precision="fp16",
    zero="0",
    single_layers="stated",
    sequence_parallel=False,
)

ONEFLOW_2021: Final = Era(
    "oneflow-2021",
    r"oneflow|libai",
    "megatron-lm",
    "OneFlow and LiBai: Megatron's layouts and kernels of 2021-22; messages between stages move while "
    "actors compute (arXiv:2110.15032, sec. 4), and all stages but the last have room for twice as many "
    "micro-batches as there are stages (oneflow/core/job_rewriter/pipeline_buffer_pass.cpp)",
    traits={**GPT_2021, "pp_exposed": 0.0, "pipeline_slots": 2.0},
    half_traits=FP16_GRADIENTS,
    precision="fp16",
    zero="0",
    sequence_parallel=False,
)

MEGATRON_2020_22: Final = Era(
    "megatron-2020-22",
    rf"^(?!.*(core|llama|like|fsdp|rocm|swift|primus|mega.?scale|mega.?blocks|{_SINCE_2023})).*megatron",
    "megatron-lm",
    "Megatron-LM before flash attention and the distributed optimizer (arXiv:2104.04473, 2205.05198); "
    "messages between stages go in parts (sec. 4.1 of the first, the default since February 2021); with "
    "sequence parallelism, of April 2022, products accumulate weight gradients themselves and hide two "
    "of the five collectives of each pair",
    traits={**GPT_2021, "scattered_messages": True},
    half_traits=FP16_GRADIENTS,
    sequence_traits={"fused_weight_gradient": True, "tp_exposed": 0.6},
    precision="fp16",
    zero="0",
    sequence_parallel=False,
    old_only=True,
)

MEGATRON_CORE: Final = Era(
    "megatron-lm",
    r"megatron|mcore|primus(?!.*titan)|mega.?scale|mega.?blocks|mind.?speed|flag.?scale",
    "megatron-lm",
    "Megatron-core since 2023, flags at their best",
)

MEGATRON_RELATIVES: Final = Era(
    "megatron-relatives",
    r"hai.?llm|paddle|fleet|mind.?spore|mind.?former|neuron|\bnxd\b|galvatron|\bhetu|axonn|picotron|bmtrain",
    "megatron-lm",
    "other programs with Megatron's degrees: eager kernels, 16-bit gradients, ZeRO-1",
    traits={**USUAL, **EAGER, **BF16_GRADIENTS, "attention": "flash-2"},
    no_flash="unfused",
    measured=False,
)
