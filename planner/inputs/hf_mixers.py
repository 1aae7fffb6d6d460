"""Mixers that pass a state along, from a ``config.json``: which layers have them, and their sizes.

Configs spell the order of layers in five ways: a list of words, an interval, a text of symbols, the numbers
of the layers with attention, and two lists of numbers that count from one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from planner.inputs.hf_family import Family
from planner.inputs.hf_fields import Config
from planner.inputs.layers import MAX_LAYERS

FULL, LINEAR, NONE = "full", "linear", ""
"""A layer's mixer: attention, one that passes a state along, or none."""

WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "full_attention": (FULL, ""),
    "attention": (FULL, ""),
    "linear_attention": (LINEAR, ""),
    "mamba": (LINEAR, ""),
    "mamba2": (LINEAR, ""),
    "conv": (LINEAR, ""),
    "mlp": (NONE, "dense"),
    "moe": (NONE, "moe"),
}
"""Words of a list of layers, each with its mixer, and its feed-forward where it is one alone."""

WINDOWED: Final = ("sliding_attention",)
"""Words of attention with a window, of types that may have it beside mixers that pass a state along."""

SYMBOLS: Final = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
"""Symbols of ``hybrid_override_pattern`` (Megatron-LM, ``hybrid_layer_allocation.py``, ``Symbols``)."""

READ: Final[Mapping[str, frozenset[str]]] = {
    "gated-delta": frozenset({"full_attention_interval", "linear_num_key_heads", "attn_output_gate"}),
    "mamba2": frozenset(
        {"hybrid_override_pattern", "layers_block_type", "mamba_num_heads", "ssm_state_size"}
    ),
    "kimi-delta": frozenset({"linear_attn_config"}),
    "lightning": frozenset(),
    "mamba1": frozenset({"layers_block_type"}),
    "short-conv": frozenset(),
}
"""Keys of other types that speak against a config, and that the types with such mixers are read by."""


def listed_kinds(config: Config, family: Family) -> list[tuple[str, str]]:
    """Return for each layer its mixer and its feed-forward; nothing where the config lists none.

    The feed-forward is empty where the type says it elsewhere.
    """
    if family.recurrent_alone:
        return [(LINEAR, "")] * min(config.whole("num_hidden_layers"), MAX_LAYERS)
    pattern = config.raw.get("hybrid_override_pattern")
    words: Any = config.raw.get("layers_block_type") or config.raw.get("layer_types")
    if words is None and isinstance(pattern, str):
        words = [SYMBOLS.get(sign, sign) for sign in pattern.split("/")[0].replace("|", "")]
    if not isinstance(words, list):
        return []
    known = {**WORDS, **dict.fromkeys(WINDOWED * family.windows, ("sliding", ""))}
    strange = sorted({str(word)[:40] for word in words if str(word) not in known})
    if strange:
        config.fault("layer_types", ", ".join(strange), f"words out of {', '.join(WORDS)}")
        return []
    kinds = [known[str(word)] for word in words]
    if not family.single and any(fed for _, fed in kinds):
        config.fault("layer_types", "layers of a feed-forward alone", "a mixer in each layer")
    return kinds


def linear_kinds(config: Config, family: Family, layers: int) -> list[str]:
    """Return the mixer of each layer of a type with a mixer and a feed-forward in all of them."""
    kinds = [mixer for mixer, _ in listed_kinds(config, family)]
    if not kinds:
        kinds = _numbered(config, family, layers)
    if len(kinds) != layers:
        config.fault("layer_types", f"{len(kinds)} layers", f"one for each of {layers} layers")
        return [FULL] * layers
    return kinds


def _numbered(config: Config, family: Family, layers: int) -> list[str]:
    """Return the mixers of layers that no list names: by an interval, or by the numbers of some."""
    if family.linear == "gated-delta":
        every = config.whole("full_attention_interval")
        return [FULL if (layer + 1) % every == 0 else LINEAR for layer in range(layers)]
    if family.linear == "lightning":
        listed = config.numbers("attn_type_list")
        return [FULL if one else LINEAR for one in listed or [(layer + 1) % 2 for layer in range(layers)]]
    if family.linear == "mamba1":
        every, first = config.whole("attn_layer_period"), config.whole("attn_layer_offset", least=0)
        return [FULL if layer % every == first else LINEAR for layer in range(layers)]
    if family.linear == "short-conv" and config.raw.get("attn_layer_indices") is None:
        if family.moe or family.windows:
            config.fault("layer_types", "nothing", f"conv or full_attention for each of {layers} layers")
        return [FULL] * layers
    found = _full_layers(config)
    return [FULL if layer in found else LINEAR for layer in range(layers)]


def _full_layers(config: Config) -> set[int]:
    """Return the layers with attention, from zero, where a config numbers them."""
    inner = config.raw.get("linear_attn_config")
    if isinstance(inner, Mapping):
        raw = inner.get("full_attn_layers")
        if not isinstance(raw, list) or not all(isinstance(one, int) for one in raw):
            config.fault("linear_attn_config.full_attn_layers", repr(raw), "a list of whole numbers")
            return set()
        return {one - 1 for one in raw}
    return set(config.numbers("attn_layer_indices") or [])


PREDICTED: Final = "predicted"
"""Block of extra prediction layers that are unlike all others."""

PREDICTS: Final = ([FULL, "moe"], [FULL, "dense"])
"""Layers of one part that together are an extra prediction layer: attention, then a feed-forward."""


def prediction_block(config: Config, family: Family, blocks: dict[str, Any], last: str) -> str:
    """Return the block of extra prediction layers: that of the last layer, or one of two parts of its own.

    A type with layers of one part says which two it takes, and both are in ``blocks`` already.
    """
    if not family.single:
        return _dense_prediction(config, blocks, last) if family.dense_prediction else last
    said = config.raw.get("mtp_hybrid_override_pattern") or config.raw.get("mtp_layers_block_type")
    words = (
        [SYMBOLS.get(sign, sign) for sign in said] if isinstance(said, str) else said or ["attention", "moe"]
    )
    parts = [next(filter(None, WORDS.get(str(word), ("", ""))), "") for word in words]
    if parts not in PREDICTS or not set(parts) <= set(blocks):
        config.fault("mtp_hybrid_override_pattern", str(said)[:40], "*E or *-, parts of other layers")
        return last
    mixer, ffn = (blocks[name] for name in parts)
    blocks[PREDICTED] = {"mixer": mixer["mixer"], "ffn": ffn["ffn"], "norms": 2}
    return PREDICTED


def _dense_prediction(config: Config, blocks: dict[str, Any], last: str) -> str:
    """Return a block with the last layer's mixer and the feed-forward of a dense one."""
    fed = [block["ffn"] for block in blocks.values() if block.get("ffn", {}).get("kind") == "dense"]
    if not fed:
        config.fault("num_nextn_predict_layers", "no dense layer", "a layer without experts")
        return last
    blocks[PREDICTED] = blocks[last] | {"ffn": fed[0]}
    return PREDICTED


def bare_kinds(config: Config, layers: int) -> list[str]:
    """Return where positions turn, else ``bare``: 1 in ``no_rope_layers``, or all but each n-th layer."""
    listed = config.numbers("no_rope_layers")
    if listed and len(listed) != layers:
        config.fault("no_rope_layers", f"{len(listed)} layers", f"one for each of {layers} layers")
    if listed:
        return [FULL if one else "bare" for one in (listed + [1] * layers)[:layers]]
    every = config.whole("no_rope_layer_interval")
    return ["bare" if (layer + 1) % every == 0 else FULL for layer in range(layers)]


def latent_mixer(config: Config, family: Family) -> dict[str, Any]:
    """Return the fields of latent attention, and of the indexer that picks its keys where there is one."""
    if config.flag("attention_bias"):
        config.fault("attention_bias", "true", "false: latent attention with biases is not expressed")
    names = ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
    record: dict[str, Any] = {"kind": "latent", "heads": config.whole("num_attention_heads")}
    # Here null says something: no compression of the queries. A key that is absent has the type's default.
    plain = "q_lora_rank" in config.raw and config.raw["q_lora_rank"] is None
    rank = 0 if plain else config.whole("q_lora_rank", least=0)
    record |= ({"q_lora_rank": rank} if rank else {}) | {name: config.whole(name) for name in names}
    if family.picks:
        _check_index(config)
        keys = {"heads": "index_n_heads", "head_dim": "index_head_dim", "topk": "index_topk"}
        record["indexer"] = {field: config.whole(key) for field, key in keys.items()}
        if config.raw.get(_PAIRS, config.defaults.get(_PAIRS, False)):
            record["indexer"]["interleaved"] = True
    return record


_PAIRS: Final = "indexer_rope_interleave"
"""Key that says whether an index turns neighbours by position."""


def _check_index(config: Config) -> None:
    """Note a fault where layers take the keys that an earlier one picked, and have no index of their own."""
    for key, own in {"indexer_types": "full", "index_topk_pattern": "F"}.items():
        each = config.raw.get(key) or ()
        if any(str(one) not in (own, "full") for one in each):
            config.fault(key, each, "an index in every layer: one that layers share is not expressed")
    if config.raw.get("index_topk_freq") not in (None, 0, 1):
        found = config.raw["index_topk_freq"]
        config.fault("index_topk_freq", found, "1: an index that layers share is not expressed")


def linear_mixer(config: Config, family: Family, hidden: int) -> dict[str, Any]:
    """Return the fields of the mixer that passes a state along, of a type that has one."""
    return _RECORDS[family.linear](config, hidden)


def _gated_delta(config: Config, hidden: int) -> dict[str, Any]:
    return {
        "kind": "gated-delta",
        "key_heads": config.whole("linear_num_key_heads"),
        "value_heads": config.whole("linear_num_value_heads"),
        "key_head_dim": config.whole("linear_key_head_dim"),
        "head_dim": config.whole("linear_value_head_dim"),
        "conv_kernel": config.whole("linear_conv_kernel_dim"),
    }


def _mamba2(config: Config, hidden: int) -> dict[str, Any]:
    heads = config.whole("mamba_num_heads", "mamba_n_heads")
    expanded = config.whole("expand", "mamba_expand", otherwise=2) * hidden
    size = config.value("mamba_head_dim", "mamba_d_head")
    record = {
        "kind": "mamba2",
        "heads": heads,
        "head_dim": expanded // heads if size in (None, "auto") else size,
        "groups": config.whole("n_groups", "mamba_n_groups"),
        "state": config.whole("ssm_state_size", "mamba_d_state"),
        "conv_kernel": config.whole("conv_kernel", "mamba_d_conv"),
        "chunk": config.whole("chunk_size", "mamba_chunk_size", otherwise=256),
        "conv_bias": config.flag(
            "use_conv_bias" if "use_conv_bias" in config.raw else "mamba_conv_bias", True
        ),
    }
    if inner := config.whole("mamba_d_ssm", otherwise=0):
        record["head_dim"] = inner // heads if size in (None, "auto") else size
        if record["head_dim"] * heads != inner:
            config.fault(
                "mamba_d_ssm", inner, f"the width of all {heads} heads, {record['head_dim'] * heads}"
            )
    if not config.flag("mamba_rms_norm", otherwise="mamba_rms_norm" not in config.defaults):
        record["gated_norm"] = False
    elif config.flag("mamba_norm_before_gate"):
        config.fault("mamba_norm_before_gate", "true", "false: a gate after the norm is not expressed")
    biased = config.flag("use_bias") if "mamba_num_heads" in config.raw else config.flag("mamba_proj_bias")
    return record | ({"bias": True} if biased else {})


def _kimi_delta(config: Config, hidden: int) -> dict[str, Any]:
    inner = config.raw.get("linear_attn_config")
    own = (
        Config(inner, {}, f"{config.where}: linear_attn_config", config.problems, config.notes)
        if isinstance(inner, Mapping)
        else config
    )
    return {
        "kind": "kimi-delta",
        "heads": own.whole("num_heads", "linear_num_heads"),
        "head_dim": own.whole("head_dim" if own is not config else "linear_head_dim"),
        "conv_kernel": own.whole("short_conv_kernel_size", "linear_conv_kernel_dim"),
    }


def _lightning(config: Config, hidden: int) -> dict[str, Any]:
    heads = config.whole("num_attention_heads")
    return {
        "kind": "lightning",
        "heads": heads,
        "head_dim": config.whole("head_dim", otherwise=max(1, hidden // heads)),
        "chunk": config.whole("block_size", otherwise=256),
    }


def _mamba1(config: Config, hidden: int) -> dict[str, Any]:
    own = "mamba_" if "mamba_d_state" in config.defaults else ""
    inner = config.whole("intermediate_size", otherwise=0) if not own else 0
    rank = config.value(f"{own}dt_rank", "time_step_rank")
    record = {
        "kind": "mamba1",
        "inner": inner or config.whole(f"{own}expand", otherwise=2) * hidden,
        "state": config.whole("mamba_d_state", "state_size"),
        "step_rank": -(-hidden // 16) if rank in (None, "auto") else rank,
        "conv_kernel": config.whole("mamba_d_conv", "conv_kernel"),
        "conv_bias": config.flag("mamba_conv_bias" if own else "use_conv_bias", True),
        "norms": config.defaults["step_norms"],
    }
    biased = config.flag("mamba_proj_bias" if own else "use_bias")
    return record | ({"bias": True} if biased else {})


def _short_conv(config: Config, hidden: int) -> dict[str, Any]:
    record = {"kind": "short-conv", "width": hidden, "conv_kernel": config.whole("conv_L_cache")}
    return record | ({"bias": True} if config.flag("conv_bias") else {})


_RECORDS: Final[Mapping[str, Callable[[Config, int], dict[str, Any]]]] = {
    "gated-delta": _gated_delta,
    "mamba2": _mamba2,
    "kimi-delta": _kimi_delta,
    "lightning": _lightning,
    "mamba1": _mamba1,
    "short-conv": _short_conv,
}
