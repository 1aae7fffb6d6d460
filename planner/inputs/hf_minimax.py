"""MiniMax-M3's two spellings: keys in a group of their own beside its weights, and transformers'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.inputs.hf_fields import Config

KIND: Final = "minimax_m3_vl_text"
PICKED: Final = "minimax_m3_sparse"
"""Word of a layer whose keys an indexer picks."""

_INDEX: Final = {
    "index_n_heads": "sparse_num_index_heads",
    "index_head_dim": "sparse_index_dim",
    "index_block_size": "sparse_block_size",
    "index_topk_blocks": "sparse_topk_blocks",
    "index_local_blocks": "sparse_local_block",
}


UNREAD: Final = "num_nextn_predict_layers is not read: the code of minimax_m3_vl builds no such layers"


def spelt_out(text: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """Return the config of MiniMax-M3's language model with transformers' keys, and notes; others as are.

    References
    ----------
    .. [1] Hugging Face, Transformers v5.23.0, ``models/minimax_m3_vl/configuration_minimax_m3_vl.py``.
    """
    if text.get("model_type") not in (KIND, "minimax_m3"):
        return text, []
    group = text.get("sparse_attention_config")
    group = group if isinstance(group, Mapping) else {}
    own = {key: group[old] for key, old in _INDEX.items() if old in group and text.get(key) is None}
    each = group.get("sparse_attention_freq") if group.get("use_sparse_attention", True) else None
    if isinstance(each, list) and not text.get("layer_types"):
        own["layer_types"] = [PICKED if one else "full_attention" for one in each]
    unread = [UNREAD] * bool(text.get("num_nextn_predict_layers"))
    return {**text, **own, "model_type": KIND, "num_nextn_predict_layers": 0}, unread


def block_indexer(config: Config) -> dict[str, Any]:
    """Return the fields of the indexer."""
    names = {"heads": "index_n_heads", "head_dim": "index_head_dim", "block": "index_block_size"}
    return {field: config.whole(key) for field, key in (names | {"blocks": "index_topk_blocks"}).items()}
