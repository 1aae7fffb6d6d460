"""Traits as fields of Megatron-Bridge's sections: what a user changed with ``--set`` is what starts."""

from __future__ import annotations

from collections.abc import Mapping

from planner.errors import UnsupportedPlan
from planner.runtimes._settings import Changes
from planner.runtimes.megatron_bridge.sections import Code, Section
from planner.runtimes.megatron_lm.settings import BACKENDS, DROPOUT


def set_fields(changes: Changes, routed: bool) -> Mapping[str, Section]:
    """Return for each section the fields that changed traits decide; only routed tokens are dispatched."""
    model: Section = {}
    if "attention" in changes:
        model["attention_backend"] = Code(f"AttnBackend.{BACKENDS[str(changes['attention'])]}")
    if "dropout" in changes:
        model |= {"attention_dropout": DROPOUT, "hidden_dropout": DROPOUT}
    if "dispatcher" in changes and routed:
        model |= {"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": "deepep"}
    off = {
        "fused_activation": "bias_activation_fusion",
        "fused_rope": "apply_rope_fusion",
        "fused_weight_gradient": "gradient_accumulation_fusion",
    }
    model |= {field: False for name, field in off.items() if changes.get(name) is False}
    if "fp8_activation_input" in changes:
        model["activation_func_fp8_input_store"] = True
    if "cached_transposes" in changes:
        model["disable_parameter_transpose_cache"] = True
    apart: Section = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    waits: Section = {"tp_comm_overlap": False} if "tp_exposed" in changes else {}
    if "dp_exposed" not in changes:
        return {"model": model, "comm_overlap": waits}
    return {"model": model, "ddp": apart, "comm_overlap": waits | apart}


SIXTEEN_BIT_AT_REST = ("bf16", "fp16", "fp8-block")
"""Precisions that are priced with a 16-bit weight at rest whatever is asked."""


def set_precision(precision: str, changes: Changes) -> Section:
    """Return the fields of Bridge's mixed precision that changed traits decide.

    Raises
    ------
    UnsupportedPlan
        If weights are to rest alone in a format that the release has no such weights in.
    """
    fields: Section = {}
    if "fp8_attention" in changes:
        fields["fp8_dot_product_attention"] = True
    if "low_bit_weights" in changes and precision not in SIXTEEN_BIT_AT_REST:
        if precision not in ("fp8", "fp8-delayed"):
            raise UnsupportedPlan(
                f"weights alone in {precision}; nearest: --precision fp8, or --set low_bit_weights=beside"
            )
        fields["fp8_param_gather"] = True
    return fields
