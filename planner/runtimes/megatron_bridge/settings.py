"""Traits as fields of Megatron-Bridge's sections: what a user changed with ``--set`` is what starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes._settings import Changes
from planner.runtimes.megatron_bridge.sections import Code, Section
from planner.runtimes.megatron_lm.settings import BACKENDS, DROPOUT

SWITCHES: Final = {
    "cached_transposes": "disable_parameter_transpose_cache",
    "fp8_activation_input": "activation_func_fp8_input_store",
    "low_bit_head": "fp8_output_proj",
    "operator_fuser": "use_transformer_engine_op_fuser",
    "static_experts": "moe_pad_expert_input_to_capacity",
}
"""Trait to the provider's field that is true where the trait is changed."""


def set_fields(changes: Changes) -> Mapping[str, Section]:
    """Return for each section the fields that changed traits decide."""
    model: Section = {}
    if "attention" in changes:
        model["attention_backend"] = Code(f"AttnBackend.{BACKENDS[str(changes['attention'])]}")
    if "dropout" in changes:
        model |= {"attention_dropout": DROPOUT, "hidden_dropout": DROPOUT}
    if "dispatcher" in changes:
        model |= {"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "deepep"}
    off = {
        "fused_activation": "bias_activation_fusion",
        "fused_rope": "apply_rope_fusion",
        "fused_weight_gradient": "gradient_accumulation_fusion",
    }
    model |= {field: False for name, field in off.items() if changes.get(name) is False}
    model |= {field: True for name, field in SWITCHES.items() if name in changes}
    if "static_experts" in changes:
        model["moe_expert_capacity_factor"] = 1.0
    apart: Section = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    waits: Section = {"tp_comm_overlap": False} if "tp_exposed" in changes else {}
    waits |= {"overlap_moe_expert_parallel_comm": True} if "overlaps_experts" in changes else {}
    if "dp_exposed" not in changes:
        return {"model": model, "comm_overlap": waits}
    return {"model": model, "ddp": apart, "comm_overlap": waits | apart}


def set_precision(changes: Changes) -> Section:
    """Return the fields of Bridge's mixed precision that changed traits decide."""
    named = {"fp8_attention": "fp8_dot_product_attention", "low_bit_weights": "fp8_param_gather"}
    return {field: True for name, field in named.items() if name in changes}
