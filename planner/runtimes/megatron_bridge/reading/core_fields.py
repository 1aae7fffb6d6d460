"""Fields of Megatron-core's configurations as the flags of Megatron-LM, which say the same.

References
----------
.. [1] Megatron-LM, megatron/training/arguments.py, ``core_transformer_config_from_args``: which flag fills
   which field of ``TransformerConfig``.
.. [2] Megatron-Bridge 067f987d, models/gpt_provider.py, training/config.py, training/mixed_precision.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.megatron_bridge.reading.core_settings import graph_setting
from planner.runtimes.megatron_bridge.sections import RECIPES
from planner.runtimes.megatron_lm.reading.megatron_hybrid import CHUNK

SAME: Final = (
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "seq_length", "vocab_size",
    "normalization", "position_embedding_type", "kv_channels", "q_lora_rank", "kv_lora_rank", "qk_head_dim",
    "qk_pos_emb_head_dim", "v_head_dim", "softmax_type", "window_attn_skip_freq", "no_rope_freq",
    "moe_router_topk", "moe_ffn_hidden_size", "moe_layer_freq", "moe_shared_expert_intermediate_size",
    "moe_latent_size", "make_vocab_size_divisible_by",
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
    "expert_model_parallel_size", "expert_tensor_parallel_size", "pipeline_model_parallel_layout",
    "recompute_granularity", "recompute_method", "recompute_num_layers", "cpu_offloading_num_layers",
    "mtp_num_layers", "max_position_embeddings", "moe_token_dispatcher_type", "optimizer",
    "optimizer_offload_fraction", "num_distributed_optimizer_instances", "data_parallel_sharding_strategy",
    "global_batch_size", "micro_batch_size", "rotary_base", "rotary_percent", "attention_dropout",
    "hidden_dropout", "init_method_std", "moe_aux_loss_coeff", "moe_router_score_function",
    "moe_router_num_groups", "moe_router_group_topk", "moe_router_topk_scaling_factor",
    "moe_router_load_balancing_type", "rope_scaling_factor", "rotary_scaling_factor",
    "glu_linear_offset", "activation_func_clamp_value", "original_max_position_embeddings",
    "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "rope_type",
    "experimental_attention_variant", "linear_attention_freq", "linear_conv_kernel_dim",
    "linear_key_head_dim", "linear_value_head_dim", "linear_num_key_heads", "linear_num_value_heads",
    "dsa_indexer_n_heads", "dsa_indexer_head_dim", "dsa_indexer_topk", "dsa_indexer_loss_coeff",
    "dsa_kernel_backend", "hybrid_layer_pattern", "hybrid_override_pattern",
    "mamba_num_heads", "mamba_head_dim", "mamba_num_groups", "mamba_state_dim",
)  # fmt: skip
"""Fields that a flag of the same words says."""

OTHER: Final = {
    "num_moe_experts": "--num-experts",
    "virtual_pipeline_model_parallel_size": "--num-virtual-stages-per-pipeline-rank",
    "num_layers_in_first_pipeline_stage": "--decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "--decoder-last-pipeline-num-layers",
    "layernorm_epsilon": "--norm-epsilon", "moe_expert_capacity_factor": "--moe-expert-capacity-factor",
    "yarn_rotary_scaling_factor": "--rotary-scaling-factor",
    "yarn_original_max_position_embeddings": "--yarn-original-max-position-embeddings",
    "yarn_beta_fast": "--yarn-beta-fast", "yarn_beta_slow": "--yarn-beta-slow", "yarn_mscale": "--mscale",
    "yarn_mscale_all_dim": "--mscale-all-dim",
}  # fmt: skip
"""Fields that a flag of other words says."""

SWITCHES: Final = {
    "multi_latent_attention": "--multi-latent-attention", "qk_layernorm": "--qk-layernorm",
    "add_qkv_bias": "--add-qkv-bias", "sequence_parallel": "--sequence-parallel",
    "use_tp_pp_dp_mapping": "--use-tp-pp-dp-mapping",
    "moe_shared_expert_gate": "--moe-shared-expert-gate", "optimizer_cpu_offload": "--optimizer-cpu-offload",
    "use_precision_aware_optimizer": "--use-precision-aware-optimizer",
    "use_distributed_optimizer": "--use-distributed-optimizer",
    "use_megatron_fsdp": "--use-megatron-fsdp", "use_torch_fsdp2": "--use-torch-fsdp2",
    "overlap_grad_reduce": "--overlap-grad-reduce", "overlap_param_gather": "--overlap-param-gather",
    "account_for_embedding_in_pipeline_split": "--account-for-embedding-in-pipeline-split",
    "account_for_loss_in_pipeline_split": "--account-for-loss-in-pipeline-split",
    "moe_router_enable_expert_bias": "--moe-router-enable-expert-bias",
    "fine_grained_activation_offloading": "--fine-grained-activation-offloading",
    "moe_grouped_gemm": "--moe-grouped-gemm", "moe_router_pre_softmax": "--moe-router-pre-softmax",
    "moe_pad_expert_input_to_capacity": "--moe-pad-expert-input-to-capacity",
    "rope_scaling": "--use-rope-scaling", "attention_output_gate": "--attention-output-gate",
    "dsa_indexer_use_sparse_loss": "--dsa-indexer-use-sparse-loss",
    "dsa_indexer_rope_interleaved": "--dsa-indexer-rope-interleaved",
    "mtp_use_repeated_layer": "--mtp-use-repeated-layer",
}  # fmt: skip
"""Fields that are on or off, and the flag that switches them on."""

OFF: Final = {
    "add_bias_linear": "--disable-bias-linear",
    "share_embeddings_and_output_weights": "--untie-embeddings-and-output-weights",
    "yarn_correction_range_round_to_int": "--no-yarn-correction-range-round-to-int",
    "dsa_indexer_rotate_activation": "--no-dsa-indexer-rotate-activation",
}
"""Fields whose flag switches them off."""

LATENT: Final = (
    "rope_type", "rotary_scaling_factor", "original_max_position_embeddings", "beta_fast", "beta_slow",
    "mscale", "mscale_all_dim",
)  # fmt: skip
"""Fields that stretch the positions of latent attention, which reads no others."""

STRETCHED: Final = tuple(f"yarn_{name}" for name in LATENT[1:])
"""Those of other attention, which reads none of the former."""

BALANCE: Final = "moe_router_load_balancing_type"
"""A field that says no balance by None too, and has a balancing loss where it is not said."""

HOSTED: Final = "cpu_offloading_num_layers"
"""Layers whose activations go to the host, unless ``cpu_offloading`` is off; Megatron-LM's flag says both."""

PATTERNS: Final = ("hybrid_layer_pattern", "hybrid_override_pattern")
"""Fields of a pattern of layers, which says their number too."""

DTYPES: Final = {
    "torch.float32": "fp32",
    "torch.bfloat16": "bf16",
    "torch.float16": "fp16",
    "torch.uint8": "fp8",
}
DTYPE_FIELDS: Final = {
    "exp_avg_dtype": "--exp-avg-dtype", "exp_avg_sq_dtype": "--exp-avg-sq-dtype",
    "main_params_dtype": "--main-params-dtype",
    "megatron_fsdp_main_grads_dtype": "--megatron-fsdp-main-grads-dtype",
}  # fmt: skip

EIGHT: Final = {"fp8": "tensorwise", "fp8-delayed": "delayed", "fp8-block": "blockwise", "mxfp8": "mxfp8"}
PRECISIONS: Final = {recipe: name for name, recipe in RECIPES.items()}


def core_flags(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the flags that say what fields say; a field that is None is not said.

    Examples
    --------
    >>> core_flags({"tensor_model_parallel_size": 2, "add_bias_linear": False, "num_moe_experts": None})
    {'--tensor-model-parallel-size': '2', '--disable-bias-linear': '', '--bf16': ''}
    """
    flags: dict[str, str] = {}
    others = STRETCHED if _on(fields.get("multi_latent_attention", False)) else LATENT
    for name, value in fields.items():
        hosted = name != HOSTED or _on(fields.get("cpu_offloading", True))
        if name in others or not hosted:
            continue
        if name == BALANCE and value is None:
            flags["--moe-router-load-balancing-type"] = "none"
        if value is None or (name == "num_layers" and any(fields.get(key) for key in PATTERNS)):
            continue
        if name in SAME or name in OTHER:
            flags[OTHER.get(name, f"--{name.replace('_', '-')}")] = str(value)
        elif name in SWITCHES and _on(value):
            flags[SWITCHES[name]] = ""
        elif name in OFF and not _on(value):
            flags[OFF[name]] = ""
        elif name in DTYPE_FIELDS:
            flags[DTYPE_FIELDS[name]] = DTYPES.get(str(value), str(value))
    return flags | _shape_flags(fields) | _precision_flags(fields)


def _on(value: object) -> bool:
    return str(value).lower() not in ("false", "0", "none", "no")


def _off(fields: Mapping[str, Any], name: str) -> bool:
    """Return whether a field is said, and not on."""
    return name in fields and not _on(fields[name])


def _head_width(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return a width of heads that is not said: Megatron-core rounds down, Megatron-LM's parser asserts."""
    hidden, heads = fields.get("hidden_size"), fields.get("num_attention_heads")
    if fields.get("kv_channels") is None and isinstance(hidden, int) and isinstance(heads, int) and heads > 0:
        return {"--kv-channels": str(max(1, hidden // heads))}
    return {}


def _shape_flags(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the flags of several words that a field stands for."""
    flags: dict[str, str] = {}
    groups, latent = fields.get("num_query_groups"), _on(fields.get("multi_latent_attention", False))
    if groups is not None and not latent:
        flags |= {"--group-query-attention": "", "--num-query-groups": str(groups)}
    flags |= _head_width(fields) if latent else {}
    if _on(fields.get("gated_linear_unit", False)):
        quick = str(fields.get("activation_func")).endswith("quick_gelu")
        flags["--quick-geglu" if quick else "--swiglu"] = ""
    modules = fields.get("recompute_modules")
    if isinstance(modules, list | tuple):
        flags["--recompute-modules"] = " ".join(map(str, modules))
    hosted = fields.get("offload_modules")
    if isinstance(hosted, list | tuple) and hosted:
        flags["--offload-modules"] = " ".join(map(str, hosted))
    stretch = fields.get("seq_len_interpolation_factor")
    if isinstance(stretch, int | float):
        flags["--rotary-seq-len-interpolation-factor"] = f"{stretch:g}"
    window = fields.get("window_size")
    if isinstance(window, list | tuple):
        flags["--window-size"] = ",".join(map(str, window))
    kind = fields.get("cp_comm_type")
    if kind is not None:
        flags["--cp-comm-type"] = " ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    kernel = fields.get("attention_backend")
    if kernel is not None:
        flags["--attention-backend"] = str(kernel).rpartition(".")[2]
    sizes = fields.get("hierarchical_context_parallel_sizes")
    if isinstance(sizes, list | tuple):
        flags["--hierarchical-context-parallel-sizes"] = " ".join(map(str, sizes))
    return flags


def _precision_flags(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return the flags of a recipe of mixed precision, and of the dtype that gradients are reduced in."""
    recipe = fields.get("mixed_precision")
    name = PRECISIONS.get(str(recipe), str(recipe))
    flags = {"--fp16" if name == "fp16" else "--bf16": ""}
    if name in EIGHT:
        flags |= {"--fp8-format": "hybrid", "--fp8-recipe": EIGHT[name]}
    elif name == "nvfp4":
        flags["--fp4-format"] = "e2m1"
    full = fields.get("grad_reduce_in_fp32")
    if full is not None and _on(full):
        flags["--accumulate-allreduce-grads-in-fp32"] = ""
    elif full is not None and "--fp16" not in flags:
        flags["--grad-reduce-in-bf16"] = ""
    return flags


WITHOUT_EFFECT: Final = re.compile(
    r"lr|min_lr|weight_decay|adam_.*|clip_grad|train_.*|manual_gc.*|should_pad_vocab"
    r"|gated_linear_unit|activation_func.*|glu_linear_offset|bias_.*_fusion|apply_rope_fusion|cross_entropy_.*"
    r"|gradient_accumulation_fusion|num_query_groups|(?:recompute|offload)_modules|window_size|cp_comm_type|hierarchical_context_parallel_sizes|mixed_precision"
    r"|grad_reduce_in_fp32|transformer_layer_spec|moe_grouped_gemm|moe_permute_fusion|moe_router_.*|mtp_enabled"
    r"|pipeline_dtype|microbatch_group_size_per_vp_stage|cpu_offloading.*|bf16|fp16|params_dtype|autocast.*"
    r"|muon_.*|use_layer_wise_distributed_optimizer|overlap_cpu_optimizer_d2h_h2d|tp_comm_overlap.*"
    r"|megatron_fsdp_grad_comm_dtype|check_for_nan_in_grad|average_in_collective|rope_type|yarn_.*|beta_.*"
    r"|mscale.*|original_max_position_embeddings|seq_len_interpolation_factor|softmax_scale|attention_backend"
    r"|moe_flex_dispatcher_backend|disable_parameter_transpose_cache|moe_aux_loss_coeff|rotary_.*"
    r"|hetereogenous_dist_checkpoint|cuda_graph_.*|use_te_rng_tracker|moe_paged_stash.*|moe_expert_rank_capacity_factor"
    r"|moe_pad_experts_for_cuda_graph_inference|moe_shared_expert_overlap|use_transformer_engine_op_fuser"
    r"|overlap_moe_expert_parallel_comm|delay_wgrad_compute|exit_.*|eval_.*|hidden_act|.*_path|.*_dir|fp[48]_.*|defer_embedding_wgrad_compute"
    r"|calculate_per_token_loss"
)
"""Fields that decide neither layout nor shape, or are read together with another."""


def field_of(flag: str) -> str:
    """Return the field that a flag says; what is no flag stands as it is."""
    known = {theirs: ours for table in (OTHER, SWITCHES, OFF, DTYPE_FIELDS) for ours, theirs in table.items()}
    if not flag.startswith("--"):
        return flag
    return known.get(flag, flag[2:].replace("-", "_"))


def unknown_fields(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields that no flag says and that may matter; dotted ones are parts of another."""
    tables = (SAME, OTHER, SWITCHES, OFF, DTYPE_FIELDS)
    return tuple(
        name
        for name, value in fields.items()
        if value is not None
        and "." not in name
        and (name, value) != ("mamba_chunk_size", CHUNK)
        and not any(name in table for table in tables)
        and name not in SETTING_FIELDS
        and not WITHOUT_EFFECT.fullmatch(name)
    )


def set_traits(fields: Mapping[str, Any]) -> list[str]:
    """Return the traits that fields set otherwise than the runtime has them."""
    fused = _on(fields.get("gated_linear_unit", False)) or _on(fields.get("add_bias_linear", True))
    off = {
        "fused_activation": _off(fields, "bias_activation_fusion") and fused,
        "fused_rope": _off(fields, "apply_rope_fusion")
        and fields.get("position_embedding_type") in ("rope", "yarn")
        and not _on(fields.get("multi_latent_attention", False)),
        "fused_weight_gradient": _off(fields, "gradient_accumulation_fusion")
        and not _on(fields.get("use_megatron_fsdp", False)),
    }  # fmt: skip
    return [f"{name}=false" for name, there in off.items() if there] + _settings(fields)


SETTING_FIELDS: Final = (
    "cuda_graph_impl", "enable_cuda_graph", "external_cuda_graph", "cuda_graph_modules", "cuda_graph_scope",
    "overlap_moe_expert_parallel_comm",
    "moe_shared_expert_overlap", "cross_entropy_fusion_impl", "cross_entropy_loss_fusion",
    "fp8_param_gather", "fp4_param_gather",
    "fp8_output_proj", "fp8_dot_product_attention", "peft_dropout", "peft_regather", "peft_a2a",
    "tp_comm_overlap_disable_qkv",
    "use_transformer_engine_op_fuser", "tp_comm_overlap", "activation_func_fp8_input_store",
    "disable_parameter_transpose_cache", "delay_wgrad_compute",
)  # fmt: skip
"""Fields that are read as settings; delayed gradients of weights are a part of overlapped experts."""


def _settings(fields: Mapping[str, Any]) -> list[str]:
    """Return the settings that fields switch on or off."""
    modules = fields.get("cuda_graph_modules") or fields.get("cuda_graph_scope") or []
    older = fields.get("enable_cuda_graph") or fields.get("external_cuda_graph")
    implementation = fields.get("cuda_graph_impl") or ("transformer_engine" if older else "")
    found, _ = graph_setting(
        str(implementation), [modules] if isinstance(modules, str) else map(str, modules)
    )
    whole = found == ["cuda_graphs=passes"]
    split = str(fields.get("tensor_model_parallel_size", 1)) != "1" and fields.get("sequence_parallel")
    on = {
        "expert_overlap=on": fields.get("overlap_moe_expert_parallel_comm"),
        "shared_expert_overlap=on": fields.get("moe_shared_expert_overlap")
        and fields.get("moe_token_dispatcher_type") in ("alltoall", "flex"),
        "loss_kernel=te": fields.get("cross_entropy_fusion_impl") == "te"
        and fields.get("cross_entropy_loss_fusion", True),
        "fp8_activation_input=true": fields.get("activation_func_fp8_input_store"),
        "cached_transposes=false": fields.get("disable_parameter_transpose_cache"),
        "low_bit_weights=alone": fields.get("fp8_param_gather") or fields.get("fp4_param_gather"),
        "low_bit_head=mxfp8": fields.get("fp8_output_proj"),
        "fp8_attention=true": fields.get("fp8_dot_product_attention"),
        "adapter_dropout=true": fields.get("peft_dropout"),
        "adapter_all_to_all=true": split and fields.get("peft_a2a"),
        "adapter_gathers_input=false": split
        and "peft_regather" in fields
        and fields.get("tp_comm_overlap_disable_qkv"),
        "adapter_regathers_input=false": split and fields.get("peft_regather") is False,
        "operator_fuser=true": fields.get("use_transformer_engine_op_fuser") and not whole,
        "tp_overlap=off": split and not fields.get("tp_comm_overlap", True),
    }
    return [*found, *(text for text, there in on.items() if there)]
