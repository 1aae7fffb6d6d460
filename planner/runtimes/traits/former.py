"""Traits that were, and the kinds that say the same now."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

Word = tuple[str, str]
"""A trait and one of its words."""

FORMER: Final[Mapping[str, Mapping[float | bool | str, Word]]] = MappingProxyType(
    {
        "loss_chunks_again": {True: ("loss", "tiled")},
        "chunk_gradient_bytes": {2.0: ("loss", "tiled"), 4.0: ("loss", "chunked")},
        "loss_beside_backward": {True: ("loss", "eager-held")},
        "split_logit_bytes": {4.0: ("loss", "transformers")},
        "gathered_logit_bytes": {4.0: ("loss", "gathered")},
        "early_stop": {True: ("checkpointing", "early-stop"), False: ("checkpointing", "reentrant")},
        "recompute_gathers": {True: ("checkpointing", "around-units"), False: ("checkpointing", "reentrant")},
        "fp32_context_gradients": {True: ("ring_attention", "torch")},
        "merges_each_step": {
            True: ("ring_attention", "torch"),
            False: ("ring_attention", "transformer-engine"),
        },
        "sequence_regather": {
            True: ("tensor_library", "megatron"),
            False: ("tensor_library", "whole-inputs"),
        },
        "told_reductions": {True: ("tensor_library", "dtensor")},
        "low_bit_gathers": {True: ("tensor_library", "megatron"), False: ("tensor_library", "plain")},
        "stacked_experts": {True: ("experts", "stacked"), False: ("experts", "grouped")},
        "every_expert": {True: ("experts", "every")},
        "expert_result_kept_apart": {True: ("experts", "weighed-apart")},
        "norm_in_product": {True: ("norms", "in-product"), False: ("norms", "apart")},
        "norm_reads_fp32": {True: ("norms", "fp32-read")},
        "chained_layer_norm": {True: ("norms", "fp32-layer-norm")},
        "chained_head_norms": {True: ("norms", "in-product-own-heads"), False: ("norms", "in-product")},
        "plain_checkpoints": {True: ("checkpointing", "around-layers")},
        "separate_projections": {True: ("adapters", "peft"), False: ("adapters", "megatron")},
        "casts_copies": {True: ("adapters", "llama-factory")},
        "fused_router": {True: ("router", "fused"), False: ("router", "eager")},
        "router_reads_fp32": {True: ("router", "fp32")},
        "p2p_occupies": {
            True: ("pipeline_code", "megatron"),
            False: ("pipeline_code", "beside-passes"),
        },
        "scattered_messages": {
            True: ("pipeline_code", "scattered"),
            False: ("pipeline_code", "megatron"),
        },
        "stages_end_apart": {
            True: ("pipeline_code", "ends-apart"),
            False: ("pipeline_code", "megatron"),
        },
        "step_copies": {True: ("optimizer_step", "megatron-core"), False: ("optimizer_step", "in-place")},
        "attention_copies": {True: ("attention_code", "repeated"), False: ("attention_code", "plain")},
        "rescaled_sinks": {True: ("attention_code", "rescaled"), False: ("attention_code", "plain")},
        "chained_rope": {
            "": ("rotary_chain", "scripted"),
            **{word: ("rotary_chain", word) for word in ("halves", "joined", "packed", "complex")},
        },
        "step_gathers_wait": {True: ("engine", "nanotron-zero")},
    }
)
"""For each former trait the values that a kind has, and that kind."""


def as_kinds(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, a former trait's as that of the kind which has it; others as they are."""
    return dict(_kind_of(name, value) for name, value in values.items())


def _kind_of(name: str, value: Any) -> tuple[str, Any]:
    plain = isinstance(value, float | bool | str)
    return FORMER.get(name, {}).get(value, (name, value)) if plain else (name, value)


def kinds_instead(name: str) -> str:
    """Return in words what says what a former trait said."""
    kinds = {trait: None for trait, _ in FORMER[name].values()}
    said = (f"--set {trait}={word} for {str(value).lower()}" for value, (trait, word) in FORMER[name].items())
    return f"the kind of {', '.join(kinds)} that has it: {', '.join(said)}"
