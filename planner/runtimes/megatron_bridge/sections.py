"""From a plan to the sections of Megatron-Bridge's ConfigContainer, as Python expressions by field."""

from __future__ import annotations

from typing import Final

from planner.formulas.pipeline import round_microbatches
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge.code import Code, Section
from planner.runtimes.megatron_bridge.hybrid import as_hybrid
from planner.runtimes.megatron_bridge.numerics import numeric_fields, router_fields
from planner.runtimes.megatron_bridge.own_layers import as_own, core_job
from planner.runtimes.megatron_bridge.vision import vision_fields
from planner.runtimes.megatron_lm.architecture import Architecture, architecture
from planner.runtimes.megatron_lm.context import context_method
from planner.runtimes.megatron_lm.flags import VOCAB_MULTIPLE, padded_vocab, position_embedding
from planner.runtimes.megatron_lm.layout import is_even, layout_string
from planner.runtimes.megatron_lm.offload import activation_layers, offloaded_modules, optimizer_share
from planner.runtimes.megatron_lm.recompute import MODULES, granularity
from planner.runtimes.megatron_lm.sharding_rules import OPTIMIZERS, precision_aware
from planner.runtimes.megatron_lm.sparse import KERNELS, LOSS_SHARE, VARIANT, indexer_of
from planner.runtimes.megatron_lm.table import SHARDING, VIRTUAL, degree_fields
from planner.runtimes.training_run import TrainingRun

RECIPES: Final = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_current_scaling_mixed",
    "fp8-delayed": "bf16_with_fp8_delayed_scaling_mixed",
    "fp8-block": "bf16_with_fp8_subchannel_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}
"""The planner's name of a precision to Bridge's recipe."""

GATHERS: Final = {
    RECIPES["fp8"]: "fp8_param_gather",
    RECIPES["fp8-delayed"]: "fp8_param_gather",
    RECIPES["mxfp8"]: "fp8_param_gather",
    RECIPES["nvfp4"]: "fp4_param_gather",
}
"""Recipes whose weights rest in low bits alone unless they are told otherwise, and the field that says so."""

TORCH_DTYPES: Final = {
    "fp32": Code("torch.float32"),
    "bf16": Code("torch.bfloat16"),
    "fp16": Code("torch.float16"),
    "fp8": Code("torch.uint8"),
}


ACTIVATIONS: Final = {
    "silu": Code("torch.nn.functional.silu"),
    "gelu": Code("torch.nn.functional.gelu"),
    "gelu_tanh": Code("torch.nn.functional.gelu"),
    "relu2": Code("squared_relu"),
    "quick_gelu": Code("quick_gelu"),
    "swiglu_oai": Code("quick_gelu"),
}
"""Activation of the feed-forward to its function; the fused kernel of GELU is the one with tanh."""

MIXED_LAYERS: Final = Code("partial(get_gpt_decoder_block_spec, use_transformer_engine=True)")
"""Layers as the frequency of experts says; the provider's own choice would put experts into every layer."""


DELTA_LAYERS: Final = Code("get_transformer_block_with_experimental_attention_variant_spec")
"""The same with gated delta nets where the pattern has them, or with an indexer in every layer."""


def model_section(plan: Plan, job: Job) -> Section:
    """Return the fields of the model provider for a legal scalar plan."""
    seen, whole, job = vision_fields(job), job.model, core_job(job)
    arch = architecture(job.model)
    parts = [
        _shape(plan, job.model, job.workload, arch),
        _mixer(job.model, arch),
        numeric_fields(job.model, arch),
        _experts(job.model, arch, job.workload),
        _delta(arch),
        _index(job.model),
        _parallel(plan, job),
        _recompute(plan),
        _offload(plan),
        seen,
    ]
    fields = {field: value for part in parts for field, value in part.items()}
    return as_own(as_hybrid(fields, plan, job.model), whole)


def _shape(plan: Plan, model: ModelSpec, work: Workload, arch: Architecture) -> Section:
    ffn = arch.dense or arch.experts
    prediction: Section = {}
    if model.prediction is not None:
        prediction = {"mtp_num_layers": model.prediction.layers, "mtp_enabled": True}
        prediction |= {"mtp_use_repeated_layer": True} if model.prediction.repeated else {}
    return {
        "num_layers": model.num_layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": ffn.inner if ffn else 4 * model.hidden,
        "num_attention_heads": arch.mixer.heads,
        "seq_length": work.seq_len,
        "vocab_size": padded_vocab(model.vocab, float(plan.tp)),
        "should_pad_vocab": True,
        "make_vocab_size_divisible_by": VOCAB_MULTIPLE,
        "normalization": "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm",
        "position_embedding_type": position_embedding(model, arch),
        "gated_linear_unit": arch.gated,
        **_activation(model, arch),
        "add_bias_linear": arch.biases == "all",
        "add_qkv_bias": arch.biases in ("qkv", "all"),
        "share_embeddings_and_output_weights": model.tied_embeddings,
        "attention_dropout": 0.0,
        "hidden_dropout": 0.0,
        "bias_activation_fusion": arch.gated or arch.biases == "all",
        "bias_dropout_fusion": True,
        "apply_rope_fusion": any(arch.rotary) and not isinstance(arch.mixer, LatentAttention),
        "cross_entropy_loss_fusion": True,
        "cross_entropy_fusion_impl": "native",
        "gradient_accumulation_fusion": plan.zero < 2,
        **prediction,
    }


def _activation(model: ModelSpec, arch: Architecture) -> Section:
    usual = "silu" if arch.gated else "gelu"
    said = model.numerics.activation or usual
    fields: Section = {"activation_func": ACTIVATIONS[said if said in ACTIVATIONS else usual]}
    if said == "swiglu_oai":
        fields |= {"glu_linear_offset": 1.0, "activation_func_clamp_value": 7.0}
    return fields


def _mixer(model: ModelSpec, arch: Architecture) -> Section:
    mixer, scaling = arch.mixer, model.numerics.rope_scaling
    if isinstance(mixer, LatentAttention):
        return {
            "multi_latent_attention": True,
            "qk_layernorm": True,
            "q_lora_rank": mixer.q_lora_rank or None,
            "kv_lora_rank": mixer.kv_lora_rank,
            "qk_head_dim": mixer.qk_nope_head_dim,
            "qk_pos_emb_head_dim": mixer.qk_rope_head_dim,
            "v_head_dim": mixer.v_head_dim,
            "rope_type": "yarn" if scaling is not None and scaling.kind == "yarn" else "rope",
        }
    fields: Section = {
        "num_query_groups": mixer.kv_heads,
        "kv_channels": mixer.head_dim,
        "qk_layernorm": mixer.qk_norm == "head",
    }
    if mixer.sinks:
        fields["softmax_type"] = "learnable"
    if mixer.output_gate:
        fields["attention_output_gate"] = True
    if arch.window is not None:
        fields["window_size"] = (arch.window - 1, 0)
        fields["window_attn_skip_freq"] = [int(there) for there in arch.windowed]
    if any(arch.rotary) and not all(arch.rotary):
        fields["no_rope_freq"] = [int(not there) for there in arch.rotary]
    return fields


def _experts(model: ModelSpec, arch: Architecture, work: Workload) -> Section:
    experts = arch.experts
    if experts is None:
        return {}
    fields: Section = {
        "transformer_layer_spec": MIXED_LAYERS,
        "num_moe_experts": experts.experts,
        "moe_router_topk": experts.topk,
        "moe_ffn_hidden_size": experts.inner,
        "moe_layer_freq": [int(there) for there in arch.expert],
        "moe_router_dtype": "fp32",
        "moe_token_dispatcher_type": "alltoall",
        "moe_grouped_gemm": True,
        "moe_permute_fusion": True,
        **router_fields(model, arch),
        "moe_router_padding_for_quantization": work.precision not in ("bf16", "fp16"),
    }
    if experts.latent:
        fields |= {"moe_latent_size": experts.latent}
    if experts.shared_inner:
        fields |= {"moe_shared_expert_intermediate_size": experts.shared_inner}
        fields |= {"moe_shared_expert_gate": experts.shared_gate}
    return fields


def _delta(arch: Architecture) -> Section:
    """Return the fields of gated delta nets, as ``models/qwen/qwen3_next_bridge.py`` names them."""
    mixer = arch.recurrent
    if not isinstance(mixer, GatedDelta):
        return {}
    return {
        "transformer_layer_spec": DELTA_LAYERS,
        "experimental_attention_variant": "gated_delta_net",
        "linear_attention_freq": [int(there) for there in arch.linear],
        "linear_conv_kernel_dim": mixer.conv_kernel,
        "linear_num_key_heads": mixer.key_heads,
        "linear_num_value_heads": mixer.value_heads,
        "linear_key_head_dim": mixer.key_head_dim,
        "linear_value_head_dim": mixer.head_dim,
        "hetereogenous_dist_checkpoint": True,
    }


def _index(model: ModelSpec) -> Section:
    """Return the fields of an indexer, as ``models/glm_moe_dsa/glm5_bridge.py`` names them."""
    indexer = indexer_of(model)
    if indexer is None:
        return {}
    fields: Section = {
        "transformer_layer_spec": DELTA_LAYERS,
        "experimental_attention_variant": VARIANT,
        "dsa_indexer_n_heads": indexer.heads,
        "dsa_indexer_head_dim": indexer.head_dim,
        "dsa_indexer_topk": indexer.topk,
        "dsa_indexer_loss_coeff": LOSS_SHARE,
        "dsa_indexer_use_sparse_loss": True,
        "dsa_kernel_backend": KERNELS,
    }
    if indexer.interleaved:
        fields |= {"dsa_indexer_rope_interleaved": True, "dsa_indexer_rotate_activation": False}
    return fields


def _parallel(plan: Plan, job: Job) -> Section:
    model, work = job.model, job.workload
    fields: Section = {
        **degree_fields(plan, "tp", "pp"),
        VIRTUAL: int(plan.vpp) if plan.vpp > 1 else None,
        **degree_fields(plan, "cp"),
        "sequence_parallel": plan.sequence_parallel and bool(plan.tp > 1),
    }
    if plan.ep > 1 or model.expert_kinds:
        fields |= degree_fields(plan, "ep", "etp")
    if plan.pp > 1:
        fields["pipeline_dtype"] = TORCH_DTYPES["fp16" if work.precision == "fp16" else "bf16"]
    if plan.cp > 1:
        kind, sizes = context_method(plan, job)
        fields |= {"cp_comm_type": kind} | (
            {"hierarchical_context_parallel_sizes": [*sizes]} if sizes else {}
        )
    if not is_even(plan, model):
        fields["pipeline_model_parallel_layout"] = layout_string(plan, model)
    if plan.vpp > 1:
        group = round_microbatches(plan.pp, plan.num_microbatches)
        fields["microbatch_group_size_per_vp_stage"] = int(group)
    return fields


def _recompute(plan: Plan) -> Section:
    wanted = granularity(plan.recompute)
    if wanted is None:
        return {}
    if not wanted.whole:
        modules = [MODULES[module] for module in wanted.modules]
        return {"recompute_granularity": "selective", "recompute_modules": modules}
    method, layers = ("uniform", 1) if wanted.layers is None else ("block", wanted.layers // int(plan.vpp))
    return {"recompute_granularity": "full", "recompute_method": method, "recompute_num_layers": layers}


def _offload(plan: Plan) -> Section:
    layers, modules = activation_layers(plan.offload), offloaded_modules(plan.offload)
    if modules:
        return {"fine_grained_activation_offloading": True, "offload_modules": modules}
    if not layers:
        return {}
    return {"cpu_offloading": True, "cpu_offloading_num_layers": layers, "cpu_offloading_weights": False}


def optimizer_section(plan: Plan, work: Workload, run: TrainingRun) -> Section:
    """Return the fields of OptimizerConfig."""
    fields: Section = {
        "optimizer": OPTIMIZERS[work.optimizer],
        "lr": Code('float(SETTINGS["LEARNING_RATE"])'),
        "min_lr": Code('float(SETTINGS["MIN_LEARNING_RATE"])'),
        "weight_decay": run.weight_decay,
        "adam_beta1": run.beta1,
        "adam_beta2": run.beta2,
        "clip_grad": run.clip,
        "use_distributed_optimizer": plan.zero >= 1,
        "bf16": work.precision != "fp16",
        "fp16": work.precision == "fp16",
    }
    if work.optimizer == "muon":
        # Its config knows no command line that would make one of the other.
        fields |= {"use_distributed_optimizer": False, "muon_tp_mode": "duplicated"}
        fields |= {"use_layer_wise_distributed_optimizer": plan.zero >= 1}
    if precision_aware(plan, work):
        state = TORCH_DTYPES[work.state_dtype or "fp32"]
        fields |= {"use_precision_aware_optimizer": True, "exp_avg_dtype": state, "exp_avg_sq_dtype": state}
        fields |= {"main_params_dtype": TORCH_DTYPES[work.master_dtype or "fp32"]}
    if share := optimizer_share(plan.offload):
        fields |= {"optimizer_cpu_offload": True, "optimizer_offload_fraction": share}
        fields |= {"overlap_cpu_optimizer_d2h_h2d": True}
    return fields


def ddp_section(plan: Plan, work: Workload) -> Section:
    """Return the fields of DistributedDataParallelConfig."""
    gradient = work.gradient_dtype or "fp32"
    fields: Section = {
        "grad_reduce_in_fp32": gradient == "fp32",
        "overlap_grad_reduce": True,
        "overlap_param_gather": plan.zero >= 1,
        "use_distributed_optimizer": plan.zero >= 1,
        "num_distributed_optimizer_instances": int(plan.dp * plan.cp / plan.zero_shards) if plan.zero else 1,
    }
    if plan.zero >= 2:
        dtype = TORCH_DTYPES[gradient]
        fields |= {"use_megatron_fsdp": True, "data_parallel_sharding_strategy": SHARDING[plan.zero]}
        fields |= {"megatron_fsdp_main_grads_dtype": dtype, "megatron_fsdp_grad_comm_dtype": dtype}
    return fields


def overlap_section(plan: Plan) -> Section:
    """Return the fields of CommOverlapConfig."""
    return {
        "tp_comm_overlap": plan.sequence_parallel and plan.tp > 1,
        "overlap_grad_reduce": True,
        "overlap_param_gather": plan.zero >= 1,
    }


def precision_fields(work: Workload) -> Section:
    """Return what the plan's price says beyond Bridge's recipe of that precision."""
    fields: Section = {"grad_reduce_in_fp32": (work.gradient_dtype or "fp32") == "fp32"}
    if work.precision in ("bf16", "fp16"):
        return fields
    kept = (
        "fp8_param_gather",
        "fp4_param_gather",
        "first_last_layers_bf16",
        "reuse_grad_buf_for_mxfp8_param_ag",
    )
    return fields | dict.fromkeys(kept, False)
