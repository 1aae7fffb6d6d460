"""What a row states of its software in columns and words, and the traits that follow."""

from __future__ import annotations

import re
from typing import Final

from planner.calibrate.eras._common import FIXED_SEGMENTS
from planner.calibrate.eras._era import SINCE_HOPPER, Era, Settings
from planner.runtimes._traits import Traits
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED

_COMPILED: Settings = {"compiled": True, "fused_norm": True, "fused_activation": True, "fused_rope": True}
COMPILED_LOSS: Final[Settings] = {**_COMPILED, "logit_bytes": 6.0, "loss_traffic": 6.0}
"""What compiling the layers and the loss fuses."""

# RulinShao/LightSeq, train_lightseq_no_trainer.py: weights, gradients and states in fp16.
PURE_FP16: Final[Settings] = dict.fromkeys(("parameter_dtype", "gradient_dtype", "reduce_dtype"), "fp16")

_OFF = r"( |=|: ?)(off|false|0)\b"

STATEMENTS: Final[tuple[tuple[re.Pattern[str], Settings], ...]] = tuple(
    (re.compile(pattern), settings)
    for pattern, settings in (
        (r"torch\.?compile( on)?\b(?! off)|thunder|nvfuser", COMPILED_LOSS),
        (r"torch\.?compile off|\beager\b", {**dict.fromkeys(_COMPILED, False), "logit_bytes": 12.0}),
        (r"fsdp.?2|fully_shard", {"hidden_collective_traffic": 3.0}),
        (r"async tp on", {"tp_exposed": ASYNC_EXPOSED}),
        (r"deterministic-mode=true", {"deterministic": True}),
        (r"moe_a2a_overlap=false", {"overlaps_experts": False}),
        (r"moe a2a(?! off)|moe_a2a_overlap=true", {"overlaps_experts": True}),
        (r"head in mxfp8", {"low_bit_head": "mxfp8"}),
        (r"fp8 activation input store", {"fp8_activation_input": True}),
        (r"fp8 attention", {"fp8_attention": True}),
        (r"fp8 parameters alone", {"low_bit_weights": "alone"}),
        (r"transposes not cached", {"cached_transposes": False}),
        (r"te op fuser", {"operator_fuser": True}),
        (r"adapter dropout", {"adapter_dropout": True}),
        (r"moe dispatcher all-to-all|moe_flex_dispatcher_backend=none", {"dispatcher": "all-to-all"}),
        # Megatron-Bridge, scripts/performance/utils/overrides.py of 26.04, `set_workload_base_configs`:
        # presets that name no flex dispatcher have the all-to-all one; recipes made of calls set it in those.
        # Before, the model's own held (`moe_token_dispatcher_type`): DeepEP for Kimi K2 and Nemotron 3 alone.
        (
            r"^(?!(kimi|nemotron).*container (25|26\.02)).*\brecipe \S+@"
            r"(?!.*(\bcalls=|moe_flex_dispatcher_backend=(deep|hybrid)ep))",
            {"dispatcher": "all-to-all"},
        ),
        # Megatron-core, transformer/cuda_graphs.py: of a layer whose router and preprocessing are graphs, and
        # whose attention may be one, the host launches few kernels beside the experts'.
        (r"cuda_graph_scope=\[[^]]*'moe_router'|graphs moe_router", {"graphed": "router"}),
        (r"cuda_graph_scope=\[[^]]*'attn'", {"graphed": "attention"}),
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
        (r"dist.?flash", PURE_FP16),
        (r"hf checkpointing", {"plain_checkpoints": True}),
        (r"float8 rowwise", {"float8_scales": "rows"}),
        (
            r"\brms_kernel=1\b|\+ ?rms ?(norm )?kernel|\bfused (rms|layer)?-?norms? kernel",
            {"fused_norm": True},
        ),
        (r"\brms_kernel=0\b|\b(no|without) (rms|layer)?-?norm kernel", {"fused_norm": False}),
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

_PARTIAL: Final = re.compile(r"\bpartial graphs\b|\b(recipe \S+@|cuda_graph_impl=)(?!.*full_iter)")


def with_graphs(framework: str, words: str) -> str:
    """Return the text of a framework that says where its graphs do not hold the whole iteration.

    A recipe that a row names says so by what it does not set.

    Examples
    --------
    >>> with_graphs("megatron-bridge 26.06", "recipe gpt_oss@c270efc50 cuda_graph_impl=transformer_engine")
    'megatron-bridge 26.06, partial graphs'
    """
    return f"{framework}, partial graphs" if _PARTIAL.search(words) else framework


FLASH: Final = {1: "flash-1", 2: "flash-2", 3: "flash-3"}


def stated_traits(
    era: Era, text: str, flash_attn: int | None, fused_norm: int | None, gpu: str, sequence_parallel: bool
) -> dict[str, object]:
    """Return the traits that a run states in its columns and in ``text``, beyond those of its era."""
    said: dict[str, object] = dict(era.hopper_traits if re.search(SINCE_HOPPER, gpu.lower()) else {})
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
    return traits.with_values(**{**era.traits, **half, **said})
