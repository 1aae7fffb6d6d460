"""The model of a module that the planner writes for torchtitan, as a record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.dataclasses import replace
from planner.runtimes.imports.sheet import Imported
from planner.runtimes.torchtitan.flux import known_record
from planner.runtimes.torchtitan.vision import encoder_of


def module_record(data: Any) -> dict[str, Any] | None:
    """Return the record of the model that ``MODEL`` of a module written by the planner holds."""
    if isinstance(data, Mapping) and data.get("family") == "flux":
        return known_record(data.get("text_tokens"))
    if not isinstance(data, Mapping) or not isinstance(data.get("runs"), list):
        return None
    blocks: dict[str, Any] = {}
    layers: list[str] = []
    for count, block in data["runs"]:
        made = {"mixer": _mixer(block), "ffn": _ffn(block)}
        if {"rotary_dim", "conv_kernel"} & {*block} and made["ffn"].get("shared_inner"):
            made["ffn"]["shared_gate"] = True
        if "window" in block:
            made["ffn"] |= {"bias": True, "router_bias": True}
        name = next((name for name, known in blocks.items() if known == made), f"block{len(blocks) + 1}")
        blocks[name] = made
        layers += [name] * count
    parts = (block["rotary_dim"] / block["head_dim"] for _, block in data["runs"] if "rotary_dim" in block)
    turned = next(parts, 1)
    return {
        **({"numerics": {"rope_fraction": turned}} if turned != 1 else {}),
        "hidden": data.get("dim"),
        "vocab": data.get("vocab_size"),
        "tied_embeddings": data.get("tied"),
        "max_positions": data.get("max_context_length"),
        "blocks": blocks,
        "layers": layers,
        **({"encoder": encoder_of(data["vision"], data["dim"])} if "vision" in data else {}),
    }


def with_images(found: Imported, data: Any) -> Imported:
    """Return what was found with the number of images that ``MODEL`` of such a module says."""
    if not isinstance(data, Mapping) or "vision" not in data:
        return found
    images, places = {"images": str(data["vision"]["images"])}, {"images": "MODEL['vision']['images']"}
    return replace(found, options={**found.options, **images}, places={**found.places, **places})


def _mixer(block: Mapping[str, Any]) -> dict[str, Any]:
    if "kv_lora_rank" in block:
        names = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
        return {"kind": "latent", "heads": block.get("n_heads")} | {name: block.get(name) for name in names}
    if "conv_kernel" in block:
        heads = {"key_heads": block.get("n_key_heads"), "value_heads": block.get("n_value_heads")}
        widths = {"key_head_dim": block.get("key_head_dim"), "head_dim": block.get("value_head_dim")}
        return {"kind": "gated-delta", "conv_kernel": block["conv_kernel"]} | heads | widths
    biased = {"sinks": True, "qkv_bias": True, "output_bias": True, "window": block.get("window")}
    return {
        **(biased if "window" in block else {}),
        "kind": "attention",
        "heads": block.get("n_heads"),
        "kv_heads": block.get("n_kv_heads"),
        "head_dim": block.get("head_dim"),
        "qk_norm": "head" if block.get("qk_norm") or "rotary_dim" in block else "none",
        **({"output_gate": True} if "rotary_dim" in block else {}),
    }


def _ffn(block: Mapping[str, Any]) -> dict[str, Any]:
    if "hidden_dim" in block:
        return {"kind": "dense", "inner": block["hidden_dim"]}
    return {
        "kind": "moe",
        "experts": block.get("num_experts"),
        "topk": block.get("top_k"),
        "inner": block.get("moe_hidden_dim"),
        "shared_inner": block.get("shared_hidden_dim") or 0,
    }
