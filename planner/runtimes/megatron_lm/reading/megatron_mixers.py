"""Layers of a Megatron-LM script that pass a state along the sequence, as its flags describe them."""

from __future__ import annotations

from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet

DELTA: Final = ("gdn", "gated_delta_net")
"""Spellings of the gated delta net, the newer one first."""

INDEXER_FLAGS: Final = {"heads": "n-heads", "head_dim": "head-dim", "topk": "topk"}
"""Fields of an indexer and the ends of their flags."""


SPARSE: Final = "dsa"
"""Name of the variant whose keys an indexer picks."""


def indexer_record(sheet: Sheet) -> dict[str, Any] | None:
    """Return the indexer that the flags describe, or None."""
    sizes = {name: sheet.whole(f"--dsa-indexer-{flag}") for name, flag in INDEXER_FLAGS.items()}
    sheet.take("--dsa-indexer-loss-coeff")
    sheet.has("--dsa-indexer-use-sparse-loss")
    sheet.take("--dsa-kernel-backend")
    interleaved = sheet.has("--dsa-indexer-rope-interleaved")
    for prefix in ("no", "disable"):
        sheet.has(f"--{prefix}-dsa-indexer-rotate-activation")
    if sheet.take("--experimental-attention-variant") != SPARSE:
        return None
    return sizes | {"interleaved": interleaved}


def delta_mixer(sheet: Sheet) -> tuple[dict[str, Any] | None, str]:
    """Return the gated delta net that the flags describe and the pattern of its layers, or None."""
    variant = sheet.take("--experimental-attention-variant")
    pattern = str(sheet.take("--linear-attention-freq") or "")
    kernel = sheet.degree("--linear-conv-kernel-dim")
    heads = sheet.degree("--linear-num-key-heads"), sheet.degree("--linear-num-value-heads")
    sizes = sheet.degree("--linear-key-head-dim"), sheet.degree("--linear-value-head-dim")
    if variant not in DELTA:
        return None, ""
    mixer = {
        "kind": "gated-delta",
        "key_heads": heads[0] or 16,
        "value_heads": heads[1] or 32,
        "key_head_dim": sizes[0] or 128,
        "head_dim": sizes[1] or 128,
        "conv_kernel": kernel or 4,
    }
    return mixer, pattern
