"""Traits as fields of Megatron-Bridge's sections: what a user changed with ``--set`` is what starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job, Runtime
from planner.runtimes.idle import Idle, TrainingTask
from planner.runtimes.megatron_bridge.code import Code, Section
from planner.runtimes.megatron_lm.choices import STATIC_SHAPES, fused_backend, graph_modules
from planner.runtimes.megatron_lm.settings import BACKENDS, DROPOUT
from planner.runtimes.megatron_lm.sharding_rules import precision_aware
from planner.runtimes.settings import Changes

SWITCHES: Final = {
    "adapter_gathers_input": "tp_comm_overlap_disable_qkv",
    "cached_transposes": "disable_parameter_transpose_cache",
    "fp8_activation_input": "activation_func_fp8_input_store",
    "low_bit_head": "fp8_output_proj",
    "operator_fuser": "use_transformer_engine_op_fuser",
    "overlaps_shared_expert": "moe_shared_expert_overlap",
    "static_experts": "moe_pad_expert_input_to_capacity",
}
"""Trait to the provider's field that is true where the trait is changed."""


def _steps_low_bits(plan: Plan, job: TrainingTask) -> bool:
    return job.workload.precision not in ("bf16", "fp16") or job.workload.optimizer != "adamw"


MASTERS: Final = Idle("whole_masters", False, _steps_low_bits, "only AdamW on 16-bit weights has a choice")
"""Who keeps masters is asked where weights rest in 16 bit alone (``use_precision_aware_optimizer_...``)."""


def input_store_rules(job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rule that what is kept in fp8 is the input of a gated silu.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``core/transformer/transformer_config.py``, ``__post_init__``:
       ``activation_func_fp8_input_store`` with another activation is an error.
    """
    gated = all(ffn.gated for ffn in job.model.ffns) and job.model.numerics.activation in (None, "silu")
    return [
        Rule(
            "input-store-is-of-swiglu",
            gated or not runtime.traits.low_bit.fp8_activation_input,
            lambda: (
                "fp8_activation_input with another activation",
                "a gated silu in each feed-forward",
                "--set fp8_activation_input=false",
            ),
        )
    ]


def set_fields(plan: Plan, job: Job, changes: Changes) -> Mapping[str, Section]:
    """Return for each section the fields that changed traits decide."""
    model: Section = {}
    if "attention" in changes:
        model["attention_backend"] = Code(f"AttnBackend.{BACKENDS[str(changes['attention'])]}")
    if "dropout" in changes:
        model |= {"attention_dropout": DROPOUT, "hidden_dropout": DROPOUT}
    if "dispatcher" in changes:
        backend = fused_backend(job, changes.get("graphed"))
        model |= {"moe_token_dispatcher_type": "flex", "moe_flex_dispatcher_backend": backend}
    if changes.get("loss") == "transformer-engine":
        model["cross_entropy_fusion_impl"] = "te"
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
    if "overlaps_experts" in changes:
        waits |= {"overlap_moe_expert_parallel_comm": True, "delay_wgrad_compute": True}
    aware: Section = {"use_precision_aware_optimizer": True} if "precision_aware" in changes else {}
    ranks: Section = {"use_tp_pp_dp_mapping": True} if "stages_inside" in changes else {}
    sections: dict[str, Section] = {"model": model, "comm_overlap": waits, "dist": ranks, "optimizer": aware}
    if "dp_exposed" in changes:
        sections |= {"ddp": apart, "comm_overlap": waits | apart}
    if "graphed" in changes:
        model |= _graph_fields(plan, job, str(changes["graphed"]))
        sections["rng"] = {"te_rng_tracker": True}
    if changes.get("graphed") == "passes":
        sections["ddp"] = {**sections.get("ddp", {}), "check_for_nan_in_grad": False}
    return sections


def _graph_fields(plan: Plan, job: Job, graphed: str) -> Section:
    if graphed == "passes":
        fields: Section = {"cuda_graph_impl": "full_iteration", "cuda_graph_modules": []}
        fields |= STATIC_SHAPES if job.model.expert_kinds else {}
    else:
        modules = graph_modules(plan, job.model, graphed)
        fields = {"cuda_graph_impl": "transformer_engine", "cuda_graph_modules": modules}
    return fields | {"use_te_rng_tracker": True}


def set_precision(plan: Plan, work: Workload, changes: Changes) -> Section:
    """Return the fields of Bridge's mixed precision that changed traits decide.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``core/optimizer/optimizer_config.py``,
       ``use_precision_aware_optimizer_no_fp8_or_ds_fp8``: with ``tensorwise``, which is the recipe that a
       bf16 job has from ``MixedPrecisionConfig`` too, the moments alone take other dtypes.
    """
    precision = work.precision
    fields: Section = {"fp8_dot_product_attention": True} if "fp8_attention" in changes else {}
    aware = "precision_aware" in changes or precision_aware(plan, work)
    if aware and "whole_masters" not in changes and precision in ("bf16", "fp16"):
        fields["fp8_recipe"] = "delayed"
    if "low_bit_weights" in changes:
        fields["fp4_param_gather" if precision == "nvfp4" else "fp8_param_gather"] = True
        fields |= {"reuse_grad_buf_for_mxfp8_param_ag": True} if precision == "mxfp8" else {}
    return fields
