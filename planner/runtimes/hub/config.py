"""A model as the Hugging Face ``config.json`` of the architecture that has exactly its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.deferred import deferred
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, ModelSpec
from planner.inputs.numerics import Router
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.remembered import remembered
from planner.rules import Rule
from planner.runtimes.hub.adapted import adapted_names, named_rule
from planner.runtimes.hub.numerics import granite_scales, hub_numerics, multipliers, unbalanced, unsaid
from planner.runtimes.hub.types import HubType, alike, typed, typed_config, typed_unsaid
from planner.runtimes.numerics import unknown_numerics
from planner.runtimes.offered import attention_of, exactly, ffn_of, fits_model, uses
from planner.runtimes.settings import NO_CHANGES, Changes

with deferred():
    from planner.runtimes.hub import hybrids
    from planner.runtimes.hub import kinds as hub_kinds

_FAMILIES: dict[frozenset[str], str] = {
    frozenset(): "llama",
    frozenset({"query/key/value biases"}): "qwen2",
    frozenset({"norms on heads"}): "qwen3",
}
"""What a dense grouped-query block needs beyond the common parts, and the architecture that has it."""

_CLASSES = {
    "llama": ("LlamaForCausalLM", "LlamaDecoderLayer"),
    "granite": ("GraniteForCausalLM", "GraniteDecoderLayer"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2DecoderLayer"),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3DecoderLayer"),
    "mixtral": ("MixtralForCausalLM", "MixtralDecoderLayer"),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeDecoderLayer"),
    "deepseek_v3": ("DeepseekV3ForCausalLM", "DeepseekV3DecoderLayer"),
    "gpt2": ("GPT2LMHeadModel", "GPT2Block"),
}
"""Architecture that is told part by part, to the classes of its language model and of a layer."""


def type_of(kind: str | None) -> HubType | None:
    """Return how an architecture is written that is taken by what is read back; None of others."""
    return None if kind is None or kind in _CLASSES else hub_kinds.TYPES[kind]


def layer_class(kind: str) -> str:
    """Return the class of one layer of an architecture, the unit that is sharded and recomputed."""
    own = type_of(kind)
    return own.layer if own else _CLASSES[kind][1]


def wrapped_class(model: ModelSpec) -> str | None:
    """Return the class of a layer of a model's checkpoint; None where several types have such layers.

    Phi-4 has Llama's shapes and layers of its own, which its checkpoint's code names.

    References
    ----------
    .. [1] Accelerate 1.15.0, ``utils/dataclasses.py``, ``set_auto_wrap_policy``: without a name,
       ``_no_split_modules`` of the model's class are wrapped.
    """
    kind = architecture(model)
    if kind is None or unwritten(model):
        return None
    found = {*alike(hub_kinds.TYPES, model), *filter(None, [_regular(model)])}
    return layer_class(kind) if found == {kind} else None


def traits_of_type(model: ModelSpec) -> Mapping[str, Any]:
    """Return what transformers' code of a model's type does that others' does not, by flat name of traits.

    References
    ----------
    .. [1] flash-attention 2.8, ``csrc/flash_attn/flash_api.cpp``: heads are 256 wide at most.
    """
    own = type_of(architecture(model))
    traits = dict(own.traits) if own else dict(FP32_ROUTER) if _is_deepseek(model) else {}
    if traits.get("attention") == "unfused":
        return traits
    if any(mixer.qk_head_dim > 256 for mixer in model.attentions) or "alibi" in model.variants:
        return traits | {"attention": "unfused"}
    return traits | ({"attention_code": "plain"} if _packaged(model, own) else {})


FP32_ROUTER: Final[Mapping[str, Any]] = {"router": "fp32"}
"""DeepSeek-V3: ``hidden_states.type(torch.float32)`` before the router's product (transformers 5.23,
``DeepseekV3TopkRouter``)."""


def _is_deepseek(model: ModelSpec) -> bool:
    return bool(model.expert_kinds) and architecture(model) == "deepseek_v3"


def _packaged(model: ModelSpec, own: HubType | None) -> bool:
    """Whether FlashAttention's package runs a model's attention, not PyTorch's own kernel.

    It has windows and bounds on scores, and takes keys and values as they are, in fewer heads than queries.
    """
    masked = any(
        isinstance(mixer, Attention) and mixer.window and not mixer.chunked for mixer in model.attentions
    )
    return masked or model.numerics.attention_softcap is not None or (own is not None and not own.native)


def attention_name(model: ModelSpec, kernel: str) -> str:
    """Return transformers' name of the attention that a model is priced with.

    References
    ----------
    .. [1] transformers 5.23, ``_supports_sdpa`` and ``_supports_flash_attn`` of each class: BLOOM and MPT
       have neither; Gemma 2, GPT-J and GPT-Neo have the package's alone.
    """
    own = type_of(architecture(model))
    if kernel == "flash-2" and traits_of_type(model).get("attention") == "unfused":
        return "eager"
    if kernel == "flash-2" and _packaged(model, own):
        return "flash_attention_2"
    return ATTENTION[kernel]


ATTENTION = {"flash-2": "sdpa", "flash-3": "flash_attention_3", "unfused": "eager"}
"""The planner's attention kernel to transformers' name; PyTorch's own runs FlashAttention-2."""


@remembered(most=256)
def architecture(model: ModelSpec) -> str | None:
    """Return the ``model_type`` that builds exactly the model's parameters, if there is one."""
    regular = None if model.recurrents else _regular(model)
    return regular if regular and not unsaid(model, regular) else typed(hub_kinds.TYPES, model) or regular


def _regular(model: ModelSpec) -> str | None:
    """Return the architecture of those whose parts are told one by one."""
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    if len({block.mixer for block in blocks}) != 1 or model.prediction is not None or not model.final_norm:
        return None
    needs = frozenset.union(*(frozenset(uses(model, block)) for block in blocks))
    experts = [block.ffn for block in blocks if isinstance(block.ffn, Experts)]
    if isinstance(blocks[0].mixer, LatentAttention):
        return "deepseek_v3" if needs == {"latent attention"} and _deepseek_layers(model, blocks) else None
    needs -= {"heads that do not add up to the hidden size"}
    if experts:
        return _expert_architecture(needs, blocks)
    if len({block.ffn for block in blocks}) == 1 and needs in _FAMILIES:
        scaled = _FAMILIES[needs] == "llama" and multipliers(model.numerics)
        return "granite" if scaled else _FAMILIES[needs]
    return "gpt2" if _is_gpt2(model, blocks[0], needs) else None


def unwritten(model: ModelSpec) -> tuple[str, ...]:
    """Return why no configuration of transformers is written for a model; nothing where one is."""
    kind = architecture(model)
    if model.encoder is not None and model.crosses and model.encoder.stem is not None:
        return ("an encoder of sound: the scripts that are written read text alone",)
    if kind is None:
        known = len(_CLASSES) + len(hub_kinds.TYPES)
        return (f"none of the {known} configurations that are written for transformers has its parts",)
    own = type_of(kind)
    return typed_unsaid(kind, own, model) if own else unsaid(model, kind)


def _without_kernel(model: ModelSpec) -> tuple[str, ...]:
    """Return the mixers of a model that FlashAttention's package does not run, and so has no price here."""
    softmax = [mixer for mixer in model.attentions if isinstance(mixer, Attention)]
    found = {
        "layers without attention": bool(model.recurrents),
        "an input of its own for each layer": model.layer_inputs is not None,
        "attention in chunks": any(mixer.chunked for mixer in softmax),
        "attention sinks": any(mixer.sinks for mixer in softmax),
        "an indexer that picks the keys": any(mixer.indexer is not None for mixer in model.attentions),
    }
    return tuple(name for name, there in found.items() if there)


def unwritten_rules(plan: Plan, model: ModelSpec, axes: tuple[str, ...]) -> list[Rule]:
    """Return the rules of a model that is priced alone: that nothing splits its layers.

    Data parallelism and its shards wrap any module, of transformers or of one's own; what splits a layer has
    to know it.
    """
    own = model.layer_inputs is None and any(block.extras for block in model.blocks.values())
    missing = unwritten(model)
    if not own and not missing:
        return []
    if not own and not model.attentions:
        return [fits_model("model-in-transformers", missing, "a model with attention in some layers")]
    if not own and (unlike := _without_kernel(model)):
        return [fits_model("model-in-transformers", (*missing, *unlike))]
    why = "nothing splits a model of one's own" if own else f"nothing splits a layer of {model.name}"
    return [exactly(f"own-model-without-{name}", name, getattr(plan, name), 1.0, why) for name in axes]


def whole_layer_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules that each rank has whole layers, and whole sequences, of types that nothing splits.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.24.0, ``models/lfm2`` and ``jamba``: no plan of theirs splits a
       mixer; the sequence is shared inside attention alone. Plans of other types were not tried.
    """
    kind = architecture(model)
    if model.recurrents:
        kinds = ", ".join(sorted({mixer.kind for mixer in model.recurrents}))
        name, why = "scan", f"transformers splits no {kinds} layer"
    elif type_of(kind):
        name, why = "layer", f"no plan that splits layers of {kind} is known"
    else:
        return []
    return [
        exactly(f"{name}-without-{axis}", axis, getattr(plan, axis), 1.0, why) for axis in ("tp", "cp", "pp")
    ]


def _expert_architecture(needs: frozenset[str], blocks: list[Block]) -> str | None:
    ffns = {block.ffn for block in blocks}
    plain = all(
        isinstance(ffn, Experts) and not (ffn.shared_inner or ffn.shared_gate or ffn.router_bias)
        for ffn in ffns
    )
    if len(ffns) != 1 or not plain:
        return None
    return {frozenset[str](): "mixtral", frozenset({"norms on heads"}): "qwen3_moe"}.get(needs)


def _deepseek_layers(model: ModelSpec, blocks: list[Block]) -> bool:
    dense = [name for name in model.layers if isinstance(model.blocks[name].ffn, DenseFfn)]
    kinds = [block.ffn for block in blocks]
    experts = [ffn for ffn in kinds if isinstance(ffn, Experts)]
    return (
        list(model.layers[: len(dense)]) == dense
        and len(experts) == 1
        and len(kinds) <= 2
        and experts[0].shared_inner % experts[0].inner == 0
        and experts[0].shared_inner > 0
        and not experts[0].shared_gate
    )


def _is_gpt2(model: ModelSpec, block: Block, needs: frozenset[str]) -> bool:
    parts = {
        "learned positions", "layer norm", "a plain feed-forward", "feed-forward biases",
        "query/key/value biases", "an output bias", "attention without rotary positions",
    }  # fmt: skip
    mixer = block.mixer
    if needs != parts or not isinstance(mixer, Attention):
        return False
    return mixer.heads == mixer.kv_heads and mixer.heads * mixer.head_dim == model.hidden


def hub_config(model: ModelSpec, seq_len: int) -> dict[str, object]:
    """Return the ``config.json`` of a model that has an `architecture`, for sequences of ``seq_len``."""
    kind = architecture(model)
    if kind is None:
        raise ValueError(f"{model.name} has no architecture in the hub")
    if own := type_of(kind):
        return typed_config(kind, own, model, seq_len)
    block = model.blocks[model.layers[-1]]
    mixer = attention_of(block)
    common: dict[str, object] = {
        "architectures": [_CLASSES[kind][0]],
        "model_type": kind,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied_embeddings,
    }
    if kind == "gpt2":
        return common | _gpt2_fields(model, block) | hub_numerics(model, kind)
    common |= {
        "hidden_size": model.hidden,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": mixer.heads,
        "num_key_value_heads": mixer.kv_heads,
        "intermediate_size": ffn_of(block).inner,
        "hidden_act": "silu",
        "max_position_embeddings": max(model.max_positions or 0, seq_len),
        "use_cache": False,
    }
    if isinstance(mixer, LatentAttention):
        return common | _latent_fields(model, mixer) | hub_numerics(model, kind)
    common |= {"head_dim": mixer.qk_head_dim}
    sparse = _expert_fields(kind, block.ffn) if isinstance(block.ffn, Experts) else {}
    scales = granite_scales(model.numerics, mixer.qk_head_dim) if kind == "granite" else {}
    return common | sparse | scales | hub_numerics(model, kind)


def _expert_fields(kind: str, ffn: Experts) -> dict[str, object]:
    count = {"mixtral": "num_local_experts"}.get(kind, "num_experts")
    width = {} if kind == "mixtral" else {"moe_intermediate_size": ffn.inner, "norm_topk_prob": True}
    return {count: ffn.experts, "num_experts_per_tok": ffn.topk, **width}


def _latent_fields(model: ModelSpec, mixer: LatentAttention) -> dict[str, object]:
    blocks = [model.blocks[name] for name in model.layers]
    dense = [block.ffn for block in blocks if isinstance(block.ffn, DenseFfn)]
    ffn = blocks[-1].ffn
    if not isinstance(ffn, Experts):
        raise ValueError(f"{model.name} has no experts in its last layer")
    return {
        "intermediate_size": dense[0].inner if dense else ffn.inner,
        "first_k_dense_replace": len(dense),
        "moe_intermediate_size": ffn.inner,
        "n_routed_experts": ffn.experts,
        "n_shared_experts": ffn.shared_inner // ffn.inner,
        "num_experts_per_tok": ffn.topk,
        "n_group": 1,
        "topk_group": 1,
        "q_lora_rank": mixer.q_lora_rank or None,
        "kv_lora_rank": mixer.kv_lora_rank,
        "qk_nope_head_dim": mixer.qk_nope_head_dim,
        "qk_rope_head_dim": mixer.qk_rope_head_dim,
        "v_head_dim": mixer.v_head_dim,
    }


def _gpt2_fields(model: ModelSpec, block: Block) -> dict[str, object]:
    return {
        "n_embd": model.hidden,
        "n_layer": model.num_layers,
        "n_head": attention_of(block).heads,
        "n_inner": ffn_of(block).inner,
        "n_positions": model.max_positions,
        "activation_function": "gelu_pytorch_tanh",
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
        "use_cache": False,
    }


ADAPTER_DROPOUT: Final = 0.05
"""Share of its input that an adapter drops where it drops any: TRL's and ms-swift's default."""


def adapter_dropout(changes: Changes) -> float:
    """Return the share of its input that an adapter drops under these settings. [-]"""
    return ADAPTER_DROPOUT if changes.get("adapter_dropout", False) else 0.0


def adapter_settings(model: ModelSpec, work: Workload, changes: Changes = NO_CHANGES) -> dict[str, object]:
    """Return what a training script tells PEFT: rank, modules beside which adapters stand, what they drop."""
    if work.method == "full":
        return {"LORA_RANK": 0, "LORA_TARGETS": None, "LORA_DROPOUT": 0.0}
    named = adapted_names(model, architecture(model), hub_kinds.TYPES)
    found = [name for group in work.lora_targets or () for name in named[group]]
    return {
        "LORA_RANK": work.lora_rank,
        "LORA_TARGETS": found or "all-linear",
        "LORA_DROPOUT": adapter_dropout(changes),
    }


def balancing_loss(model: ModelSpec) -> float:
    """Return what the loss of the experts' balance is multiplied by in training; 0 where there is none. [-]

    References
    ----------
    .. [1] transformers 5.23, models/mixtral/modeling_mixtral.py: the model adds it where it is given labels,
       which a script that takes the logits does not do.
    """
    loss = (model.numerics.router or Router()).aux_loss
    if not loss or not model.expert_kinds or not architecture(model):
        return 0.0
    return loss if hub_config(model, 1).get("output_router_logits") else 0.0


_PACKAGE: Final = (
    "Install flash-attn 2: windows, bounded scores or fewer heads of keys run in it, not in PyTorch's.",
)


def model_notes(model: ModelSpec) -> tuple[str, ...]:
    """Return for the run card what is not known of the model, or not done by transformers."""
    kernels = hybrids.kernel_notes(model) if model.recurrents else ()
    kernels += _PACKAGE if attention_name(model, "flash-2") == "flash_attention_2" else ()
    own = type_of(architecture(model))
    kernels += own.notes if own else ()
    return (*kernels, *unknown_numerics(model), *unbalanced(model, architecture(model) or ""))


def adapted_rule(model: ModelSpec, work: Workload) -> Rule:
    """Return the rule that the adapted layers have names of their own."""
    named = adapted_names(model, architecture(model), hub_kinds.TYPES) if work.lora_targets else {}
    return named_rule(model, work, named)
