"""A planner model as the plain data that the emitted Python modules build torchtitan's configs from."""

from __future__ import annotations

from pprint import pformat

from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.model import Attention, DenseFfn, Experts, LatentAttention, ModelSpec
from planner.plan import Plan
from planner.runtimes.offered import attention_of, ffn_of, stage_layers
from planner.runtimes.torchtitan import delta, vision
from planner.runtimes.torchtitan.numerics import numeric_data
from planner.runtimes.torchtitan.sinking import FAMILY, is_sinking


def family(model: ModelSpec) -> str:
    """Return torchtitan's model family that has the blocks of a buildable model."""
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    if isinstance(blocks[0].mixer, LatentAttention):
        return "deepseek_v3"
    if is_sinking(model):
        return FAMILY
    if delta.is_delta(model):
        return delta.FAMILY
    plain = all(isinstance(block.ffn, DenseFfn) and isinstance(block.mixer, Attention) for block in blocks)
    normed = any(getattr(block.mixer, "qk_norm", "none") != "none" for block in blocks)
    return "llama3" if plain and not normed else "qwen3"


def _ffn_data(ffn: DenseFfn | Experts) -> dict[str, object]:
    if isinstance(ffn, DenseFfn):
        return {"hidden_dim": ffn.inner}
    return {
        "moe_hidden_dim": ffn.inner,
        "num_experts": ffn.experts,
        "top_k": ffn.topk,
        "shared_hidden_dim": ffn.shared_inner,
    }


def _block_data(model: ModelSpec, name: str) -> dict[str, object]:
    block = model.blocks[name]
    ffn = ffn_of(block)
    if delta.is_delta(model) and isinstance(block.mixer, Attention | GatedDelta):
        return delta.mixer_data(model, block.mixer) | _ffn_data(ffn)
    mixer = attention_of(block)
    if isinstance(mixer, LatentAttention):
        names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        attention = {"n_heads": mixer.heads} | {field: getattr(mixer, field) for field in names}
    else:
        attention = {"n_heads": mixer.heads, "n_kv_heads": mixer.kv_heads, "head_dim": mixer.head_dim}
        attention |= {"window": mixer.window} if mixer.sinks else {"qk_norm": mixer.qk_norm == "head"}
    return attention | _ffn_data(ffn)


def model_data(model: ModelSpec, seq_len: int) -> dict[str, object]:
    """Return sizes, and for each run of equal layers its count and block."""
    return {
        "name": model.name,
        "dim": model.hidden,
        "vocab_size": model.vocab,
        "tied": model.tied_embeddings,
        "max_context_length": max(model.max_positions or 0, seq_len),
        **numeric_data(model),
        "runs": [(count, _block_data(model, name)) for name, count in model.runs],
    }


def part_names(plan: Plan, model: ModelSpec, head: str) -> list[list[str]] | None:
    """Return the modules of each virtual stage; ``head`` is the output layer's name in this version."""
    if plan.pp == 1:
        return None
    parts, first = [], 0
    for layers in stage_layers(plan, model):
        parts.append([f"layers.{layer}" for layer in range(first, first + layers)])
        first += layers
    parts[0][:0] = [vision.PART, "tok_embeddings"] if vision.sees(model) else ["tok_embeddings"]
    parts[-1] += ["norm", head]
    return parts


def literal(name: str, value: object) -> str:
    """Return ``NAME = value`` as Python text."""
    return f"{name} = {pformat(value, width=100, sort_dicts=False)}\n"
