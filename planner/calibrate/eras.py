"""Eras: what a training framework of a given time did, where that differs from today's runtime.

A run table names its framework in free text. The text, and nothing about the source or the row, finds an era:
the runtime that prices it, the traits in which it differed, and what its users left at default. A framework
without a version is taken to be as new as the accelerator it ran on: on A100 and older, unversioned
Megatron-LM without flash attention is that of 2020-22, and on Hopper and later it is Megatron-core.

The numbers are starting points from the literature of each framework; `planner calibrate` refines them.
"""

from __future__ import annotations

import re
from typing import Final

from planner.calibrate.era import NEW, OLD, Era
from planner.calibrate.era_settings import (
    BRIDGE,
    EAGER,
    FSDP1,
    GPT_2021,
    HALF,
    HALF_GRADIENTS,
    INTERNEVO,
    MEGATRON_ON_ZERO,
    OVERLAPPED,
    SWEEP,
    USUAL,
)
from planner.calibrate.era_statements import COMPILED_LOSS

_SINCE_2023 = r"20(2[3-9]|[3-9]\d)|\b[rv]?0\.\d|\b2[3-9]\.\d\d|\bmain\b"
"""Words of versions since 2023: a year, a release of Megatron-core, a container."""
_MEGATRON_DEEPSPEED = r"megatron.?deepspeed|gpt.?neox|\bneox\b"
_DEEPSPEED = r"deepspeed|zero.?[123]\b|zero\+\+|zero.?(infinity|offload)|\bds\b"

ERAS: Final = (
    Era(
        "zero-bubble-2023",
        r"zero.?bubble",
        "megatron-lm",
        "Megatron-LM fork of arXiv:2401.10241, interleaved to single layers; the optimizer validates later",
        {**GPT_2021, "fused_weight_gradient": True, "stages_end_apart": True},
        HALF,
        precision="fp16",
        zero="0",
        interleaved="single-layer",
        sequence_parallel=False,
    ),
    Era(
        "megatron-bridge-graph",
        r"megatron.?bridge.*\b(26\.(0[6-9]|1\d)|2[7-9]\.\d\d)(?!.*partial graphs)",
        "megatron-bridge",
        "recipes since container 26.06: a CUDA graph of the whole iteration, hybrid expert dispatch, "
        "16-bit gradients, Transformer Engine's loss; expert messages run beside compute",
        {**BRIDGE, "overlaps_experts": True},
        gpus=r"b[123]00",
    ),
    Era(
        "megatron-bridge",
        r"megatron.?bridge",
        "megatron-bridge",
        "recipes: overlap on, forced expert balance, 16-bit gradients, TE's loss, mock data in tuning too",
        BRIDGE,
    ),
    Era(
        "nemo-2025",
        r"nemo.*\b(2\.\d|2[5-9]\.\d\d)|nemo-?2\b",
        "megatron-bridge",
        "NeMo 2, whose recipes became Megatron-Bridge's",
        BRIDGE,
        packs=True,
        measured=False,
    ),
    Era(
        "nemo-2024",
        r"nemo",
        "megatron-bridge",
        "NeMo with Megatron-core before Megatron-Bridge, loss not fused; a blank vpp is fully interleaved",
        {
            **HALF_GRADIENTS,
            "step_copies": "never",
            "loss_traffic": 28.0,
            "adapts": "qkv",
            "message_multiprocessors": 0.0,
        },
        interleaved="single-layer",
        packs=True,
    ),
    Era(
        "megatron-deepspeed-2023",
        _MEGATRON_DEEPSPEED,
        "megatron-lm",
        "the same forks since flash attention, as on Hopper and later",
        {
            **USUAL,
            "attention": "flash-2",
            "fused_rope": False,
            "fused_weight_gradient": False,
            "step_copies": "never",
            "tp_exposed": 1.0,
            "dp_exposed": 1.0,
            "gradient_copy_bytes": 2.0,
            "live_elements": 1e9,
            "bucket_elements": 5e8,
        },
        sequence_parallel=False,
        gpus=NEW,
        measured=False,
    ),
    Era(
        "megatron-deepspeed-zero3",
        _MEGATRON_DEEPSPEED,
        "deepspeed",
        "DeepSpeed's fork of Megatron-LM on its ZeRO-3 engine, 2022-23: no pipeline",
        MEGATRON_ON_ZERO,
        HALF,
        precision="fp16",
        zero="3",
        sequence_parallel=False,
        zero3_only=True,
    ),
    Era(
        "megatron-deepspeed",
        _MEGATRON_DEEPSPEED,
        "megatron-lm",
        "BigScience's and DeepSpeed's forks of Megatron-LM, 2021-22; ZeRO-1 beside pipeline parallelism; "
        "in bf16 gradients are summed in fp32 beside the 16-bit ones and reduced through flat fp32 buckets "
        "(deepspeed/runtime/bf16_optimizer.py), in fp16 a step copies the gradients of a rank to one flat "
        "fp32 buffer (zero/stage_1_and_2.py)",
        {
            **GPT_2021,
            "scattered_messages": True,
            "gradient_copy_bytes": 2.0,
            "live_elements": 1e9,
            "bucket_elements": 5e8,
            "flat_buckets": 1.0,
            "reserve_share": 0.13,
            "framework_bytes": 12 * 2.0**30,
        },
        {**HALF, "gradient_copy_bytes": 0.0, "flat_buckets": 0.0, "step_bytes": 4.0},
        precision="fp16",
        sequence_parallel=False,
    ),
    Era(
        "oneflow-2021",
        r"oneflow|libai",
        "megatron-lm",
        "OneFlow and LiBai: Megatron's layouts and kernels of 2021-22; messages between stages move while "
        "actors compute (arXiv:2110.15032, sec. 4), and all stages but the last have room for twice as many "
        "micro-batches as there are stages (oneflow/core/job_rewriter/pipeline_buffer_pass.cpp)",
        {**GPT_2021, "pp_exposed": 0.0, "pipeline_slots": 2.0},
        HALF,
        precision="fp16",
        zero="0",
        sequence_parallel=False,
    ),
    Era(
        "megatron-2020-22",
        rf"^(?!.*(core|llama|like|fsdp|rocm|swift|primus|mega.?scale|mega.?blocks|{_SINCE_2023})).*megatron",
        "megatron-lm",
        "Megatron-LM before flash attention and the distributed optimizer (arXiv:2104.04473, 2205.05198); "
        "messages between stages go in parts (sec. 4.1 of the first, the default since February 2021); with "
        "sequence parallelism, of April 2022, products accumulate weight gradients themselves and hide two "
        "of the five collectives of each pair",
        {**GPT_2021, "scattered_messages": True},
        HALF,
        {"fused_weight_gradient": True, "tp_exposed": 0.6},
        precision="fp16",
        zero="0",
        sequence_parallel=False,
        old_only=True,
    ),
    Era(
        "internevo-2023",
        r"intern.?(evo|lm)",
        "megatron-lm",
        "InternEvo: the kernels of flash-attn and apex, norms that read fp32; ZeRO-1 with 16-bit gradients "
        "all-reduced behind backward, whole parameters owned by ranks and sent round before the next step "
        "(configs/7B_sft.py); the loss casts logits to fp32 and writes their gradient in place",
        INTERNEVO,
        sequence_parallel=False,
        no_flash="unfused",
    ),
    Era(
        "megatron-like-overlapped",
        r"colossal",
        "megatron-lm",
        "Colossal-AI: kernels one by one, Hugging Face's loss, ZeRO-1 whose traffic hides behind backward "
        "and whose step casts a rank's gradients to fp32 (zero/low_level/low_level_optim.py)",
        {**OVERLAPPED, "logit_bytes": 12.0, "step_bytes": 4.0, "reserve_share": 0.05},
        sequence_parallel=False,
        no_flash="unfused",
    ),
    Era(
        "megatron-like",
        r"in.?house|megatron.?like|megatron.?llama",
        "megatron-lm",
        "in-house code with Megatron's layouts: kernels one by one, logits not divided, bf16 gradients that "
        "ZeRO-1 casts to fp32 and all-reduces (https://github.com/Aleph-Alpha/scaling, core/optimizer)",
        SWEEP,
        sequence_parallel=False,
        no_flash="unfused",
        stage_cut="parameters",
    ),
    Era(
        "megatron-core",
        r"megatron|mcore|primus(?!.*titan)|mega.?scale|mega.?blocks|mind.?speed|flag.?scale",
        "megatron-lm",
        "Megatron-core since 2023, flags at their best",
    ),
    Era(
        "megatron-relatives",
        r"hai.?llm|paddle|fleet|mind.?spore|mind.?former|neuron|\bnxd\b|galvatron|\bhetu|axonn|picotron|bmtrain",
        "megatron-lm",
        "other programs with Megatron's degrees: eager kernels, 16-bit gradients, ZeRO-1",
        {**USUAL, **EAGER, **HALF_GRADIENTS, "attention": "flash-2"},
        no_flash="unfused",
        measured=False,
    ),
    Era(
        "ring-self-attention-2021",
        r"ring.?self",
        "fsdp",
        "Colossal-AI's sequence parallelism (arXiv:2105.13120): scores kept, no flash attention",
        {**FSDP1, "attention": "unfused", "early_stop": False},
        precision="fp16",
        zero="3",
        recompute="full",
        sequence_parallel=False,
        no_flash="unfused",
    ),
    Era(
        "sequence-2023",
        r"dist.?flash|ulysses|ring.?attention",
        "fsdp",
        "sequence-parallel research code on eager PyTorch (arXiv:2310.03294, 2309.14509)",
        {**FSDP1, "early_stop": False, "cp_slowdown": 1.0, "cp_exposed": 0.1, "recompute_gathers": True},
        zero="3",
        recompute="full",
        sequence_parallel=False,
    ),
    Era(
        "deepspeed-2021",
        r"^deepspeed v?0\.(3|4|5\.[0-4])\b",
        "deepspeed",
        "DeepSpeed's ZeRO-3 before release 0.5.5, under Megatron's models: each parameter is gathered by "
        "itself, all work done, as a list of parts",
        MEGATRON_ON_ZERO,
        HALF,
        precision="fp16",
        zero="3",
        sequence_parallel=False,
    ),
    Era(
        "deepspeed-2023",
        _DEEPSPEED,
        "deepspeed",
        "DeepSpeed with flash attention and traffic half hidden, as on Hopper and later",
        zero="3",
        sequence_parallel=False,
        no_flash="unfused",
        gpus=NEW,
        measured=False,
    ),
    Era(
        "deepspeed",
        _DEEPSPEED,
        "deepspeed",
        "DeepSpeed ZeRO with eager PyTorch or Hugging Face models",
        {**EAGER, "attention": "unfused", "dp_exposed": 1.0},
        HALF,
        zero="3",
        sequence_parallel=False,
        no_flash="unfused",
    ),
    Era(
        "llm-foundry-2023",
        r"llm.?foundry|composer|mosaic",
        "fsdp",
        "MosaicML's FSDP trainer, Triton attention; recompute stops early on PyTorch 2.1 (v0.3, Hopper)",
        {
            **FSDP1,
            "attention": "triton-2023",
            "early_stop": False,
            "fused_norm": True,
            "fused_activation": True,
            "logit_bytes": 6.0,
            "loss_traffic": 12.0,
        },
        hopper_traits={"early_stop": True},
        zero="3",
        no_flash="unfused",
    ),
    Era(
        "torchtitan-2024",
        r"torchtitan.*(2024|fsdp2)|^torchtitan$",
        "torchtitan",
        "FSDP2, compiled layers but not their loss, recompute that stops early, as of 2024",
        {
            "attention": "flash-2",
            "hidden_collective_traffic": 3.0,
            "early_stop": True,
            "logit_bytes": 12.0,
            "loss_beside_backward": True,
            "reserve_share": 0.07,
        },
        zero="3",
        selective="selective:per-op",
        compiles_loss=False,
    ),
    Era(
        "torchtitan-2025",
        r"torchtitan.*2025",
        "torchtitan",
        "the same with a compiled loss, as of 2025",
        {"attention": "flash-2", "hidden_collective_traffic": 3.0, "early_stop": True, "reserve_share": 0.02},
        zero="3",
        selective="selective:per-op",
    ),
    Era(
        "torchtitan",
        r"torchtitan",
        "torchtitan",
        "today's torchtitan: recompute runs whole layers again",
        {"attention": "flash-2", "hidden_collective_traffic": 3.0, "early_stop": False},
        zero="3",
        recompute="selective",
        selective="selective:per-op",
    ),
    Era(
        "litgpt",
        r"lit.?gpt|lightning",
        "fsdp",
        "LitGPT on PyTorch FSDP or DDP, eager unless a compiler is named; keys and values are repeated "
        "for all query heads (litgpt/model.py)",
        {**FSDP1, "attention_copies": True},
        zero="3",
        no_flash="unfused",
    ),
    Era(
        "data-parallel",
        r"\bddp\b|distributed.?data.?parallel|nano.?gpt",
        "fsdp",
        "PyTorch's DistributedDataParallel: whole models, gradients all-reduced behind backward",
        {**USUAL, **FSDP1},
        zero="0",
        no_flash="unfused",
        measured=False,
    ),
    Era(
        "xla",
        r"\bjax\b|max.?text|levanter|easy.?lm|\bt5x\b|\bpax(ml)?\b|gspmd|\bxla\b|pathways|\balpa\b",
        "fsdp",
        "JAX programs that XLA compiles and shards as FSDP does",
        {**USUAL, "attention": "flash-2", **COMPILED_LOSS},
        zero="3",
        sequence_parallel=False,
        no_flash="unfused",
        measured=False,
    ),
    Era(
        "fsdp",
        r"fsdp|accelerate|pytorch|transformers|\bhf\b|\btrl\b|axolotl|hugging|torch.?tune|llama.?factory|unsloth|"
        r"\bpeft\b|\bolmo|modalities|xtuner|fairseq|fairscale|metaseq|foundation.?model|vescale|sage.?maker|\bsmp\b|"
        r"optimum",
        "fsdp",
        "PyTorch FSDP, eager unless a compiler is named",
        FSDP1,
        zero="3",
        no_flash="unfused",
    ),
    Era("nanotron", r"nanotron", "nanotron", "Hugging Face nanotron"),
)
"""All eras, the most particular first: the first that matches is the run's."""

UNMEASURED: Final = frozenset(era.name for era in ERAS if not era.measured)
"""Eras without a published run, whose prices nobody has compared."""


def find_era(framework: str, gpu: str, flash_attn: int | None, zero: str = "") -> Era | None:
    """Return the era that a framework text means, or None where no runtime prices that framework.

    Examples
    --------
    >>> [find_era("megatron-lm", gpu, None).name for gpu in ("a100", "h100")]
    ['megatron-2020-22', 'megatron-core']
    """
    text, gpu = framework.lower(), gpu.lower()
    old = not flash_attn and bool(re.search(OLD, gpu))
    sharded = zero == "3" or zero.startswith("hsdp")
    held = (era for era in ERAS if sharded or not era.zero3_only)
    named = (era for era in held if re.search(era.pattern, text) and re.search(era.gpus, gpu))
    return next((era for era in named if old or not era.old_only), None)
