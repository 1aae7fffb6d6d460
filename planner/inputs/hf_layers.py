"""Which layers of a ``config.json`` see a window, turn by position, and have experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.dataclasses import replace
from planner.inputs import hf_minimax
from planner.inputs.hf_family import Family
from planner.inputs.hf_fields import Config
from planner.inputs.hf_mixers import bare_kinds, linear_kinds

EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
"""Keys of the number of experts."""
KINDS = {
    "full_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "global": "full",
    "local": "sliding",
    hf_minimax.PICKED: "picked",
}
"""Words of a list of layers, and what each sees."""

SHARED = "-shared"
"""End of the kind of a layer that meets the keys and values of an earlier one of its kind."""


def layer_kinds(text: Mapping[str, Any]) -> list[str]:
    """Return the words that a config has for its layers, none where it lists none."""
    kinds = text.get("layer_types")
    return [str(kind)[:40] for kind in kinds] if isinstance(kinds, list) else []


def attention_kinds(config: Config, family: Family, layers: int) -> list[str]:
    """For each layer ``full``, ``sliding``, ``chunked``, ``linear``, or ``bare`` without rotary positions.

    One that has no keys and values of its own ends with `SHARED`.
    """
    kinds = _ended(config, family, _seen_kinds(config, family, layers))
    shared = _sharing(config, family)
    if shared >= layers:
        config.fault("num_kv_shared_layers", shared, f"fewer than {layers} layers")
    missing = {*kinds[layers - shared :]} - {*kinds[: layers - shared]}
    if missing:
        config.fault(
            "num_kv_shared_layers", shared, f"a layer before them of each kind: {', '.join(missing)}"
        )
    return [f"{kind}{SHARED * (place >= layers - shared)}" for place, kind in enumerate(kinds)]


def _sharing(config: Config, family: Family) -> int:
    """Return how many of the last layers meet the keys and values of earlier ones."""
    return config.whole("num_kv_shared_layers", otherwise=0, least=0) if family.wide_full else 0


def _ended(config: Config, family: Family, kinds: list[str]) -> list[str]:
    """Return the kinds with a last layer that sees the whole sequence, where a type's code makes it so."""
    if not family.wide_full or kinds[-1:] in ([], ["full"]):
        return kinds
    config.note("the last layer sees the whole sequence, as Gemma 4's code makes it")
    return [*kinds[:-1], "full"]


def _seen_kinds(config: Config, family: Family, layers: int) -> list[str]:
    if family.beside:
        return ["full"] * layers
    if family.linear:
        return linear_kinds(config, family, layers)
    if family.reach == "bare":
        return bare_kinds(config, layers)
    key = "attention_chunk_size" if family.reach == "chunk" else "sliding_window"
    bound = config.whole("max_position_embeddings", "n_positions", otherwise=10**12)
    least = int(family.wide_full or family.reach == "hybrid")
    window = config.whole(key, otherwise=0, least=least) if family.reach != "full" else 0
    listed = layer_kinds(config.raw)
    if listed and len(listed) != layers:
        config.fault("layer_types", f"{len(listed)} layers", f"one for each of {layers} layers")
    elif listed:
        kinds = [KINDS.get(kind, "full") for kind in listed]
    if not listed or len(listed) != layers:
        kinds = _default_kinds(config, family, layers) if window else ["full"] * layers
    if not {*kinds} <= {"full", "picked"} and not window:
        config.fault(
            key, "nothing", f"a window, since layer_types has {', '.join(sorted(set(kinds)))} layers"
        )
    if family.bare_full and window:
        kinds = ["bare" if kind == "full" else kind for kind in kinds]
    if window >= bound and set(kinds) != {"full"} and not family.wide_full:
        config.note(f"{key} {window} reaches over all of {bound} positions: full attention")
        return [kind if kind == "bare" else "full" for kind in kinds]
    return kinds


def _default_kinds(config: Config, family: Family, layers: int) -> list[str]:
    if family.reach == "all":
        return ["sliding"] * layers
    if family.reach == "listed":
        config.fault("layer_types", "nothing", f"the kind of each of {layers} layers")
        return ["full"] * layers
    if family.reach == "flag":
        first = config.whole("max_window_layers", least=0) if config.flag("use_sliding_window") else layers
        return ["sliding" if layer >= first else "full" for layer in range(layers)]
    if family.reach == "every":
        every = config.whole("sliding_window_pattern", "_sliding_window_pattern")
        return ["full" if (layer + 1) % every == 0 else "sliding" for layer in range(layers)]
    listed = config.numbers("hybrid_layer_pattern" if family.reach == "hybrid" else "no_rope_layers")
    windowed = "sliding" if family.reach == "hybrid" else "chunked"
    if listed:
        if len(listed) != layers:
            config.fault(
                "no_rope_layers or hybrid_layer_pattern", f"{len(listed)} layers", f"{layers} layers"
            )
        return [windowed if one else "full" for one in (listed + [0] * layers)[:layers]]
    if family.reach == "hybrid":
        config.fault("hybrid_layer_pattern", "nothing", f"0 or 1 for each of {layers} layers")
        return ["full"] * layers
    every = config.whole("no_rope_layer_interval")
    return ["full" if (layer + 1) % every == 0 else windowed for layer in range(layers)]


def heads_of(config: Config, family: Family, reach: str, own: str) -> int:
    """Return the query heads of layers of a kind, which a config may number layer by layer."""
    each = config.numbers("num_attention_heads_per_layer")
    if each is None:
        return config.whole(f"{own}num_attention_heads", "num_attention_heads", "n_head")
    kinds = attention_kinds(config, family, len(each))
    found = {heads for heads, kind in zip(each, kinds, strict=True) if kind == reach}
    if len(found) != 1 or min(found) < 1:
        config.fault("num_attention_heads_per_layer", sorted(found), f"one number for all {reach} layers")
        return 1
    return found.pop()


def whole_heads(config: Config) -> Config:
    """Return the config of layers that see the whole sequence: heads of their own, spelt in two ways."""
    each = config.raw.get("per_layer_config")
    found = list(each.values()) if isinstance(each, Mapping) else []
    if any(one != found[0] or set(one) - {"head_dim", "num_key_value_heads"} for one in found):
        config.fault("per_layer_config", "layers that differ", "one width and number of heads for all")
    own = dict(found[0]) if found else {"head_dim": config.whole("global_head_dim")}
    if not found and config.flag("attention_k_eq_v") and config.raw.get("num_global_key_value_heads"):
        own["num_key_value_heads"] = config.whole("num_global_key_value_heads")
    return replace(config, raw=dict(config.raw) | own, names={})


def ffn_kinds(config: Config, family: Family, layers: int) -> list[str]:
    """For each layer ``dense`` or ``moe``."""
    if family.paired:
        return ["moe", "dense"] * (layers // 2)
    shared = _sharing(config, family)
    if shared and config.flag("use_double_wide_mlp"):
        return ["dense"] * (layers - shared) + ["wide"] * shared
    experts = config.whole(*EXPERTS, otherwise=0, least=0)
    if family.linear and experts < 2:
        return ["dense"] * layers
    if not family.moe:
        if experts:
            config.fault("num_experts", experts, "no experts: this model type has none")
        return ["dense"] * layers
    words = config.value("mlp_layer_types")
    listed = (
        [word == "sparse" for word in words] if isinstance(words, list) else config.numbers("moe_layer_freq")
    )
    if listed is not None:
        if len(listed) != layers:
            key = "mlp_layer_types" if words else "moe_layer_freq"
            config.fault(key, f"{len(listed)} layers", f"one for each of {layers} layers")
        return ["moe" if one else "dense" for one in (listed + [0] * layers)[:layers]]
    chosen = config.numbers("moe_layers")
    dense = set(config.numbers("mlp_only_layers") or [])
    first = config.whole("first_k_dense_replace", otherwise=0, least=0)
    every = config.whole("moe_layer_freq", otherwise=1)
    step = config.whole("decoder_sparse_step", "interleave_moe_layer_step", otherwise=1)
    offset = config.whole("expert_layer_offset", otherwise=step - 1, least=0)
    last = config.whole("moe_layer_end_index", otherwise=layers, least=-1)

    def is_moe(layer: int) -> bool:
        if chosen is not None:
            return layer in chosen
        regular = layer % every == 0 and layer % step == offset
        return first <= layer <= (layers if last < 0 else last) and layer not in dense and regular

    return ["moe" if is_moe(layer) else "dense" for layer in range(layers)]
