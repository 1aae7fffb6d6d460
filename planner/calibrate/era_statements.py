"""What a row states of its software in columns and words, and the traits that follow."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from planner.calibrate.era import NEW, Era, Settings
from planner.calibrate.era_settings import FIXED_SEGMENTS
from planner.runtimes._traits import Traits

_COMPILED: Settings = {"compiled": True, "fused_norm": True, "fused_activation": True, "fused_rope": True}
COMPILED_LOSS: Final[Settings] = {**_COMPILED, "logit_bytes": 6.0, "loss_traffic": 6.0}
"""What compiling the layers and the loss fuses."""

# RulinShao/LightSeq, lightseq_async_attn.py: messages of a step travel beside the attention of the last, and
# are waited for behind it; train_lightseq_no_trainer.py: weights, gradients and states in fp16.
LIGHTSEQ: Final[Settings] = {
    "attention": "lightseq",
    "cp_exposed": 0.0,
    **dict.fromkeys(("parameter_dtype", "gradient_dtype", "reduce_dtype"), "fp16"),
}

_OFF = r"( |=|: ?)(off|false|0)\b"

STATEMENTS: Final[tuple[tuple[re.Pattern[str], Settings], ...]] = tuple(
    (re.compile(pattern), settings)
    for pattern, settings in (
        (r"torch\.?compile( on)?\b(?! off)|thunder|nvfuser", COMPILED_LOSS),
        (r"torch\.?compile off|\beager\b", {**dict.fromkeys(_COMPILED, False), "logit_bytes": 12.0}),
        (r"fsdp.?2|fully_shard", {"hidden_collective_traffic": 3.0}),
        (r"async tp on", {"tp_exposed": 0.74}),
        (r"moe a2a(?! off)|moe_a2a_overlap=true", {"overlaps_experts": True}),
        (r"head in mxfp8", {"low_bit_head": "mxfp8"}),
        (r"moe dispatcher all-to-all", {"dispatcher": "all-to-all"}),
        # Megatron-Bridge, training/utils/moe_token_drop.py: only the all-to-all dispatcher drops tokens.
        (r"token.?drop", {"dispatcher": "all-to-all", "static_experts": True}),
        (r"gradient buckets off|not overlapped|\b(no|without) overlap", {"dp_exposed": 1.0}),
        (
            rf"\b(dp|grad(ient)?|param)[ _](comm[ _])?overlap{_OFF}|overlap_grad_reduce{_OFF}",
            {"dp_exposed": 1.0},
        ),
        (rf"\btp[ _](comm[ _])?overlap{_OFF}|\b(no|without) overlap", {"tp_exposed": 1.0}),
        # Fine-tuning recipes (Megatron-Bridge, configs/llama/llama3_llm_finetune.py) have no
        # tp_comm_overlap_cfg, which those for pre-training tune: Transformer Engine's default holds.
        (r"\btask=(sft|lora)\b", {"message_multiprocessors": 16.0}),
        (r"reduce-scatter and all-gather overlapped", {"dp_exposed": 0.3}),
        (r"cuda_launch_blocking=1", {"launch_blocking": True}),
        (r"mp_mode=pure", {"gradient_dtype": "bf16", "reduce_dtype": "bf16"}),
        (r"mp_mode=default", {"gradient_dtype": "fp32", "reduce_dtype": "fp32", "early_stop": True}),
        (r"dist.?flash", LIGHTSEQ),
        # RulinShao/LightSeq, lightseq_ckpt_monkey_patch.py: units are called by halves, around attention.
        (r"dist.?flash(?!.*hf checkpointing)", {"recompute_attention": False, "sharded_calls": 2.0}),
        (r"float8 rowwise", {"quantise_passes": 3.0, "low_bit_gathers": False}),
        (r"kernel=torch", {"attention": "unfused"}),
        # Release 2.1 and its commit of March 2021: messages between stages went whole.
        (r"megatron-lm (8aa4619f|v?2\.[01]\b)", {"scattered_messages": False}),
        (r"vocabulary not padded", {"padded_vocabulary": False}),
        (r"graph of mlp", {"graphed": "mlp"}),
        (r"without expandable segments", FIXED_SEGMENTS),
        (r"kernel=fused", {"attention": "fused-softmax"}),
    )
)
"""What model, framework, ``overlap`` and ``notes`` may state, and the traits that it sets."""

FLASH: Final = {1: "flash-1", 2: "flash-2", 3: "flash-3"}


def stated_traits(
    era: Era, text: str, flash_attn: int | None, fused_norm: int | None, gpu: str, sequence_parallel: bool
) -> dict[str, object]:
    """Return the traits that a run states in its columns and in ``text``, beyond those of its era."""
    said: dict[str, object] = dict(era.hopper_traits if re.search(NEW, gpu.lower()) else {})
    if sequence_parallel:
        said |= era.sequence_traits
    for pattern, settings in STATEMENTS:
        if pattern.search(text):
            said |= settings
    if not era.compiles_loss:
        said = {name: value for name, value in said.items() if not name.startswith(("logit", "loss"))}
    if flash_attn is not None:
        said.setdefault("attention", FLASH.get(flash_attn, era.no_flash))
    if fused_norm is not None:
        said["fused_norm"] = bool(fused_norm)
    return said


def era_traits(traits: Traits, era: Era, precision: str, said: Settings) -> Traits:
    """Return a runtime's traits as they were in the era, with what the run states on top."""
    half = era.half_traits if precision == "fp16" else {}
    return replace(traits, **{**era.traits, **half, **said})  # type: ignore[arg-type]
