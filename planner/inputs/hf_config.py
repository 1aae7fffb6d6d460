"""A Hugging Face ``config.json`` as a model: exactly, or refused with the reason. Its code is never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.inputs import hf_beside, hf_masked, hf_minimax, hf_ties
from planner.inputs.build import build
from planner.inputs.diffusers_config import CLASS, config_file, diffusion_from_config
from planner.inputs.hf_absent import filled
from planner.inputs.hf_family import ADJUSTED, Family
from planner.inputs.hf_fields import Config
from planner.inputs.hf_kind import is_set, language_model, model_type, thinker_of
from planner.inputs.hf_layers import EXPERTS, SHARED, attention_kinds, ffn_kinds, heads_of, whole_heads
from planner.inputs.hf_mixers import LINEAR, latent_mixer, linear_mixer, listed_kinds, prediction_block
from planner.inputs.hf_numerics import numerics
from planner.inputs.hf_seq2seq import is_seq2seq, seq2seq_from_config
from planner.inputs.hf_types import family_of
from planner.inputs.hf_vision import LEFT_OUT, encoder_of, is_of_encoder
from planner.inputs.layers import MAX_LAYERS
from planner.inputs.model import ModelSpec
from planner.inputs.yaml_file import read_json

_TOPK = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "experts_per_token", "moe_topk")
_LAYERS = ("num_hidden_layers", "n_layer")
NOISE = (
    *("attention_dropout", "attn_pdrop", "resid_pdrop", "embd_pdrop", "hidden_dropout", "dropout"),
    *("attention_probs_dropout_prob", "hidden_dropout_prob", "residual_dropout", "router_jitter_noise"),
)


@dataclass(frozen=True)
class ImportedModel:
    """A model read from another format, and what the reader had to assume or leave out."""

    model: ModelSpec
    notes: tuple[str, ...]


def read_hf_config(path: Path, name: str = "") -> ImportedModel:
    """Return the model that a ``config.json``, or the folder that holds one, describes.

    ``path``: the file or its folder; ``name``: the model's name; by default the folder's.

    Raises `InputError` if the file is broken, lacks fields, or describes what the model record cannot express
    exactly.
    """
    file, stem = config_file(path)
    return model_from_config(read_json(file), str(file), name or stem or "model")


def without_encoder(imported: ImportedModel) -> ImportedModel:
    """Return the language model alone, which is told where there was an encoder."""
    if imported.model.encoder is None:
        return imported
    if imported.model.crosses:
        found = f"{imported.model.name}, whose decoder attends to its encoder"
        raise InputError(Problem("--text-only", found, "a model that is whole without its encoder"))
    notes = (LEFT_OUT, *(note for note in imported.notes if not is_of_encoder(note)))
    alone = imported.model.model_copy(update={"encoder": None, "note": "; ".join(notes)})
    return ImportedModel(ModelSpec.model_validate(alone.model_dump()), notes)


def model_from_config(raw: Mapping[str, Any], where: str, name: str) -> ImportedModel:
    """Return the model that the config ``raw`` describes; ``where`` names it in messages.

    Raises `InputError` as `read_hf_config`.
    """
    if is_seq2seq(raw):
        return ImportedModel(*seq2seq_from_config(raw, where, name))
    if CLASS in raw:
        return ImportedModel(*diffusion_from_config(raw, where, name))
    raw, spoken = thinker_of(hf_beside.as_library(raw))
    text, notes = language_model(raw, where)
    text, unread = hf_minimax.spelt_out(hf_masked.spelt_out(text))
    notes += spoken + unread
    kind = model_type(raw, text, where)
    said = text
    text, absent = filled(kind, text, inside="text_config" in raw)
    notes += absent
    family = family_of(kind, text)
    config = Config(text, family.defaults, where, notes=notes, names=family.names)
    hf_ties.settle(config, raw, text)
    _check_fixed(config, family)
    _tell_noise(config)
    record = _model(config, family, name)
    sparse = any(block.get("ffn", {}).get("kind") == "moe" for block in record["blocks"].values())
    mixers = [block["mixer"] for block in record["blocks"].values() if "mixer" in block]
    turned = any(mixer.get("rotary", mixer["kind"] in ("attention", "latent")) for mixer in mixers)
    record["numerics"] = numerics(config, kind, turned, sparse)
    record |= encoder_of(raw, text, config)
    config.misspelt(said, NOISE)
    if config.problems:
        raise InputError(config.problems)
    record["note"] = "; ".join(config.notes)
    return ImportedModel(build(ModelSpec, record, where), tuple(config.notes))


def _tell_noise(config: Config) -> None:
    """Note what a config drops or disturbs while it trains, which is a setting of the run."""
    noise = [key for key in NOISE if is_set(config.raw.get(key)) and config.raw[key] != 0]
    if noise:
        said = ", ".join(f"{key} {config.raw[key]}"[:60] for key in noise)
        config.note(f"{said}: not read, since dropout and noise belong to the run")


def _check_fixed(config: Config, family: Family) -> None:
    for key, wanted in family.fixed.items():
        value = config.raw.get(key)
        only = config.raw.get(wanted) if isinstance(wanted, str) else wanted
        if value is not None and value != only:
            config.fault(key, repr(value), f"{only}: another value is not expressed exactly")
    for key, word in family.words.items():
        if (value := config.raw.get(key)) not in (None, word):
            config.fault(key, repr(value), f"{word}: another value is not expressed exactly")


def _model(config: Config, family: Family, name: str) -> dict[str, Any]:
    listed = listed_kinds(config, family) if family.single else []
    layers = len(listed) or _number(config, family)
    hidden = config.whole("hidden_size", "n_embd")
    if family.single:
        attention, feed_forward = [mixer for mixer, _ in listed], [fed for _, fed in listed]
        if not listed:
            config.fault(
                "hybrid_override_pattern", "nothing", "the kinds of all layers, or layers_block_type"
            )
    else:
        attention, feed_forward = attention_kinds(config, family, layers), ffn_kinds(config, family, layers)
    blocks: dict[str, Any] = {}
    for reach, ffn in dict.fromkeys(zip(attention, feed_forward, strict=True)):
        parts = {"mixer": _mixer(config, family, hidden, reach)}
        parts |= {"beside": linear_mixer(config, family, hidden)} if family.beside else {}
        parts |= {"ffn": _fed(config, family, hidden, ffn)}
        there = {name: part for name, part in parts.items() if part}
        blocks[_block_name(reach, ffn, attention)] = there | {"norms": family.norms}
    order = [_block_name(reach, ffn, attention) for reach, ffn in zip(attention, feed_forward, strict=True)]
    record: dict[str, Any] = {
        "name": name,
        "hidden": hidden,
        "vocab": config.whole("vocab_size"),
        "tied_embeddings": config.flag("tie_word_embeddings"),
        "learned_positions": family.learned_positions,
        "norm": family.norm,
        "norm_bias": family.norm == "layernorm" and family.norm_bias,
        "variants": list(family.variants),
        "blocks": blocks,
        "layers": order,
    }
    least = None if family.learned_positions else 0
    positions = config.whole("max_position_embeddings", "n_positions", otherwise=least)
    if positions or family.learned_positions:
        spare = family.spare_positions
        if family.padded_positions:
            spare = config.whole("pad_token_id", otherwise=1, least=0) + 1
            positions = max(1, positions - spare)
        record |= {"max_positions": positions} | ({"spare_positions": spare} if spare else {})
    record |= {} if family.final_norm else {"final_norm": False}
    record |= {} if family.head_product is None else {"head_product": {"bias": family.head_product}}
    if family.token_types:
        record["token_types"] = config.whole(family.token_types)
    if family.wide_full:
        record |= _layer_inputs(config, blocks, hidden)
    if extra := config.whole("num_nextn_predict_layers", "mtp_num_hidden_layers", otherwise=0, least=0):
        record["prediction"] = {"layers": extra, "block": prediction_block(config, family, blocks, order[-1])}
    if config.whole("num_mtp_modules", otherwise=0, least=0):
        config.note("num_mtp_modules is not read: the layout of these modules is not published")
    return record


def _number(config: Config, family: Family) -> int:
    """Return the number of layers; one, where the config's is too large."""
    if family.paired:
        config.note("each of num_layers is two layers here: one with the experts, one without")
    layers = 2 * config.whole("num_layers") if family.paired else config.whole(*_LAYERS)
    if layers > MAX_LAYERS:
        config.fault("num_hidden_layers", layers, f"at most {MAX_LAYERS}")
    return layers if layers <= MAX_LAYERS else 1


def _layer_inputs(config: Config, blocks: Mapping[str, Any], hidden: int) -> dict[str, Any]:
    """Return the inputs that each layer has of its own, and blocks with the products that read them."""
    narrow = config.whole("hidden_size_per_layer_input", otherwise=0, least=0)
    if not narrow:
        return {}
    widths = ((hidden, narrow), (narrow, hidden))
    products = [{"kind": "product", "inputs": one, "outputs": other} for one, other in widths]
    own = {name: block | {"extras": products} for name, block in blocks.items()}
    inputs = {"width": narrow, "vocab": config.whole("vocab_size_per_layer_input")}
    return {"blocks": own, "layer_inputs": inputs}


def _mixer(config: Config, family: Family, hidden: int, reach: str) -> dict[str, Any]:
    if reach == LINEAR:
        return linear_mixer(config, family, hidden)
    if not reach:
        return {}
    return latent_mixer(config, family) if family.latent else _attention(config, family, hidden, reach)


def _fed(config: Config, family: Family, hidden: int, ffn: str) -> dict[str, Any]:
    if not ffn:
        return {}
    if ffn == "moe":
        return _experts(config, family)
    fed = _dense(config, family, hidden)
    return fed | {"inner": 2 * fed["inner"]} if ffn == "wide" else fed


def _block_name(reach: str, ffn: str, attention: Sequence[str]) -> str:
    if not reach or not ffn:
        return reach or ffn
    return ffn if len(set(attention)) == 1 else f"{reach}-{ffn}"


def _attention(config: Config, family: Family, hidden: int, reach: str) -> dict[str, Any]:
    own = "swa_" if family.reach == "hybrid" and reach == "sliding" else ""
    shared, reach = reach.endswith(SHARED), reach.removesuffix(SHARED)
    if family.wide_full and reach == "full":
        config = whole_heads(config)
    heads = heads_of(config, family, reach, own)
    head_dim = config.whole(f"{own}head_dim", "head_dim", otherwise=0)
    if not head_dim:
        if not family.learned_positions:
            config.note("head_dim is absent: the hidden size over the heads")
        if hidden % heads:
            config.fault("head_dim", "nothing", f"a whole number, since {heads} heads do not divide {hidden}")
        head_dim = max(1, hidden // heads)
    kv_heads = config.whole(f"{own}num_key_value_heads", "num_key_value_heads", otherwise=heads)
    if own and config.raw.get("swa_num_key_value_heads") is None:
        kv_heads *= 2
        config.note("swa_num_key_value_heads is absent: twice as many as those of full attention")
    record: dict[str, Any] = {"kind": "attention", "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    value = config.whole(f"{own}v_head_dim", "v_head_dim", otherwise=head_dim)
    window = config.whole(
        "attention_chunk_size" if reach == "chunked" else "sliding_window", otherwise=1, least=0
    )
    norm = config.flag("use_qk_norm", otherwise=True) or config.flag("qk_layernorm")
    optional: dict[str, Any] = {
        "v_head_dim": value if value != head_dim else None,
        "window": window if reach in ("sliding", "chunked") else None,
        "chunked": reach == "chunked",
        "qkv_bias": config.flag(family.qkv_bias),
        "output_bias": config.flag(family.output_bias),
        "qk_norm": family.qk_norm if norm and family.qk_norm != "none" else None,
        "output_gate": family.output_gate,
        "head_gate": config.flag(family.head_gate),
        "projected": _projected(config, family, reach, shared),
        "indexer": hf_minimax.block_indexer(config) if reach == "picked" else None,
        "sinks": family.sinks or (family.reach == "hybrid" and _hybrid_sinks(config, reach)),
    }
    record |= {key: value for key, value in optional.items() if value}
    unturned = (
        family.single
        or family.bare
        or "alibi" in family.variants
        or not str(config.raw.get("position_embedding_type") or "rope").startswith("rope")
    )
    if (
        family.learned_positions
        or unturned
        or reach == "bare"
        or (family.reach == "chunk" and reach == "full")
    ):
        record["rotary"] = False
    return record | ({} if family.causal else {"causal": False})


def _projected(config: Config, family: Family, reach: str, shared: bool) -> str | None:
    if shared:
        return "queries"
    same = family.wide_full and reach == "full" and config.flag("attention_k_eq_v")
    return "queries-keys" if same else None


def _hybrid_sinks(config: Config, reach: str) -> bool:
    sliding = reach == "sliding"
    key = "add_swa_attention_sink_bias" if sliding else "add_full_attention_sink_bias"
    return config.flag(key, otherwise=sliding)


def _dense(config: Config, family: Family, hidden: int) -> dict[str, Any]:
    otherwise = 4 * hidden if family.dense_inner == "n_inner" else None
    said = config.whole(family.dense_inner, otherwise=otherwise)
    record: dict[str, Any] = {"kind": "dense", "inner": family.defaults.get(ADJUSTED, said)}
    if record["inner"] != said:
        config.note(f"the feed-forward is {record['inner']} wide, as its code makes of {said}")
    if not family.gated:
        record["gated"] = False
    if config.flag(family.ffn_bias):
        record["bias"] = True
    if family.activation_weights:
        record["activation_weights"] = family.activation_weights
    return record


def _experts(config: Config, family: Family) -> dict[str, Any]:
    inner = config.whole("moe_intermediate_size", "expert_ffn_hidden_size", "intermediate_size")
    record: dict[str, Any] = {
        "kind": "moe",
        "experts": config.whole(*EXPERTS),
        "topk": config.whole(*_TOPK),
        "inner": inner,
    }
    own, shared = family.shared, 0
    if own is not None:
        shared = config.whole(
            own.key, *filter(None, [own.other]), otherwise=None if own.least else 0, least=own.least
        )
        shared *= inner if own.key.endswith("shared_experts") else 1
    optional = {
        "bias": family.expert_bias,
        "gated": None if family.gated else False,
        "shared_inner": shared,
        "shared_gate": own is not None and own.gate,
        "router_bias": family.router_bias,
        "zero_experts": config.whole("zero_expert_num", otherwise=0, least=0) if family.paired else 0,
        "shortcut": family.paired,
        "latent": config.whole("moe_latent_size", otherwise=0, least=0) if family.narrow else 0,
    }
    if not isinstance(family.ffn_bias, bool) and config.flag(family.ffn_bias):
        config.fault(family.ffn_bias, "true", "false: experts with such biases are not expressed")
    return record | {
        key: value for key, value in optional.items() if value or (key == "gated" and value is False)
    }
