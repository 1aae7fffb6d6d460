"""A model in numbers: one row for a list, and where its parameters are."""

from __future__ import annotations

from typing import Any

from planner.inputs.block_parts import CorePart
from planner.inputs.model import Attention, Block, Experts, Mixer, ModelSpec
from planner.inputs.recurrent import RecurrentMixer
from planner.inputs.variants import MEANINGS

Row = dict[str, Any]


def model_kind(model: ModelSpec) -> str:
    """Attention and feed-forward in the field's words, such as ``mla moe`` or ``gqa sliding dense``.

    ``mha``, ``gqa`` and ``mqa`` tell how many key/value heads there are, ``mla`` is latent attention;
    ``both-ways`` sees later tokens too, and ``sparse`` says that an indexer picks the keys; ``zero-experts``
    compute nothing, and experts on a ``shortcut`` are added a layer later. ``diffusion`` transformers say how
    text enters.
    """
    if model.diffusion is not None:
        return " ".join(["diffusion", *_diffusion_words(model)])
    words: dict[str, None] = {}
    for block in model.blocks.values():
        words |= dict.fromkeys(_attention_words(block))
    kinds = {ffn.kind for ffn in model.ffns}
    special = {
        "zero-experts": any(ffn.zero_experts for ffn in model.expert_kinds),
        "shortcut": any(ffn.shortcut for ffn in model.expert_kinds),
    }
    there = [word for word, found in special.items() if found]
    return " ".join([*words, *there, "moe" if "moe" in kinds else "dense"])


def _diffusion_words(model: ModelSpec) -> list[str]:
    """How text enters, and whether attention keeps to space and time."""
    text = model.diffusion.text if model.diffusion else "none"
    parts = [part for block in model.blocks.values() for part in block.parts]
    axes = any(isinstance(part, CorePart) and part.axis for part in parts)
    words = {"joint": ["joint-text"], "cross": ["cross-text"], "none": []}[text]
    return words + ["space-time"] * axes


def _attention_words(block: Block) -> list[str]:
    return [word for mixer in block.mixers for word in _mixer_words(mixer)]


def _mixer_words(mixer: Mixer) -> list[str]:
    if isinstance(mixer, RecurrentMixer):
        return [mixer.kind]
    if not isinstance(mixer, Attention):
        return ["mla", *(["sparse"] if mixer.indexer else [])]
    shared = "mha" if mixer.kv_heads == mixer.heads else "mqa" if mixer.kv_heads == 1 else "gqa"
    if mixer.indexer:
        return [shared, "sparse"]
    seen = [] if mixer.causal else ["both-ways"]
    return [shared, *seen] + ([] if mixer.window is None else ["chunked" if mixer.chunked else "sliding"])


def model_row(model: ModelSpec) -> Row:
    """The row of a model in a list."""
    return {
        "name": model.name,
        "params": model.params,
        "active_params": model.active_params,
        "layers": model.num_layers,
        "hidden": model.hidden,
        "kind": model_kind(model),
    }


def run_rows(model: ModelSpec) -> list[Row]:
    """The rows of a model's runs of equal layers, first to last."""
    width = model.norm_params
    return [
        {
            "block": name,
            "layers": layers,
            "params_per_layer": model.block_params(name),
            "active_params_per_layer": model.blocks[name].active_params(model.hidden, width),
        }
        for name, layers in model.runs
    ]


def part_rows(model: ModelSpec) -> list[Row]:
    """Where the parameters are; without the extra prediction layers they add up to ``params``."""
    parts = {
        "embedding": model.embedding_params,
        "attention": 0,
        "linear layers": 0,
        "dense feed-forward": 0,
        "blocks of parts": 0,
        "operators of one's own": 0,
        "routed experts": 0,
    }
    parts |= {"router and shared experts": 0, "norms of blocks": 0, "head and last norm": model.head_params}
    parts |= {"encoder" if model.crosses else "encoder and projectors": model.encoder_params}
    for name, layers in model.layer_counts.items():
        block = model.blocks[name]
        parts["blocks of parts"] += layers * sum(part.params for part in block.parts)
        parts["operators of one's own"] += layers * sum(one.params for one in block.extras)
        parts["attention"] += layers * (block.cross.params(model.hidden) if block.cross else 0)
        for mixer in block.mixers:
            kind = "linear layers" if isinstance(mixer, RecurrentMixer) else "attention"
            parts[kind] += layers * mixer.params(model.hidden)
        parts["norms of blocks"] += layers * block.norms * model.norm_params
        if isinstance(block.ffn, Experts):
            parts["routed experts"] += layers * block.ffn.experts * block.ffn.expert_params(model.hidden)
            parts["router and shared experts"] += layers * block.ffn.shared_params(model.hidden)
        elif block.ffn is not None:
            parts["dense feed-forward"] += layers * block.ffn.params(model.hidden)
    rows = [
        {"part": part, "params": params, "share": params / model.params} for part, params in parts.items()
    ]
    if model.prediction:
        extra = model.prediction_params
        rows.append({"part": "extra prediction layers", "params": extra, "share": extra / model.params})
    return [row for row in rows if row["params"]]


def _spread(model: ModelSpec) -> str:
    """Say between what a token's parameters lie where experts compute nothing."""
    if not any(ffn.zero_experts for ffn in model.expert_kinds):
        return ""
    low = high = model.active_params
    for name, layers in model.layer_counts.items():
        ffn = model.blocks[name].ffn
        if isinstance(ffn, Experts):
            mean = ffn.active_params(model.hidden)
            each, shared = ffn.expert_params(model.hidden), ffn.shared_params(model.hidden)
            least, most = max(0, ffn.topk - ffn.zero_experts), min(ffn.topk, ffn.experts)
            low += layers * (least * each + shared - mean)
            high += layers * (most * each + shared - mean)
    return f" on average, {low:,} to {high:,} by how many picks of a token are experts that compute nothing"


def told_facts(model: ModelSpec) -> list[Row]:
    """The rows of what a model's file says beside its layers, for people."""
    said = model.published
    sizes = [
        f"{said.params} parameters" * bool(said.params),
        f"{said.active_params} active" * bool(said.active_params),
    ]
    facts = {
        "name": model.name,
        "kind": model_kind(model),
        "params": f"{model.params:,}",
        "active_params": f"{model.active_params:,}" + _spread(model),
        "published": ", ".join(filter(None, sizes)) + f" ({said.source})" * bool(said.source),
        "layers": model.num_layers,
        "hidden": model.hidden,
        "vocab": model.vocab or None,
        "variants": "; ".join(f"{name}: {MEANINGS[name]}" for name in model.variants) or None,
        "trained_to": "fill in masked tokens" if model.fills_masks else None,
        "tied_embeddings": None if model.diffusion else "yes" if model.tied_embeddings else "no",
        "max_positions": model.max_positions,
        "aliases": ", ".join(model.aliases),
        "source": model.source,
        "note": model.note,
    }
    return [
        {"field": field, "value": str(value)} for field, value in facts.items() if value not in (None, "")
    ]


def model_facts(model: ModelSpec) -> Row:
    """All that is known of a model, for JSON."""
    return {
        "schema": "planner/model/1",
        **model_row(model),
        "prediction_params": model.prediction_params,
        "runs": run_rows(model),
        "parts": part_rows(model),
        "model": model.model_dump(exclude_defaults=True),
    }
