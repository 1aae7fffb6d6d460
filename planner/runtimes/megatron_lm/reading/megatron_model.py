"""The architecture that a Megatron-LM script's flags describe."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any, Final

from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.sums import number_of
from planner.runtimes.imports.tokenizers import vocabulary
from planner.runtimes.megatron_lm.flags import VOCAB_MULTIPLE
from planner.runtimes.megatron_lm.reading.megatron_hybrid import (
    PARTS,
    hybrid_stages,
    prediction_symbols,
    state_space,
)
from planner.runtimes.megatron_lm.reading.megatron_mixers import delta_mixer, indexer_record
from planner.runtimes.megatron_lm.reading.megatron_numerics import numerics_record
from planner.units import is_whole

PADDED_TO: Final = "--make-vocab-size-divisible-by"
"""What the table of tokens is padded to a multiple of, times the tensor-parallel degree."""

MOST_LAYERS = 10_000


def layer_pattern(text: str, layers: int) -> list[bool] | None:
    """Return for each layer whether a pattern such as ``([0]*3+[1]*58)`` or ``2`` marks it, or None.

    A number N marks every Nth layer from the first on, as Megatron-LM reads ``--moe-layer-freq``.

    Examples
    --------
    >>> layer_pattern("([0]*1+[1]*2)", 3), layer_pattern("2", 4)
    ([False, True, True], [True, False, True, False])
    """
    if is_whole(text) and int(text) > 0:
        return [layer % int(text) == 0 for layer in range(layers)]
    try:
        found = _listed(ast.parse(text.strip(" \t\"'"), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return [bool(mark) for mark in found] if len(found) == layers else None


def _listed(node: ast.expr) -> list[int]:
    if isinstance(node, ast.List):
        marks = [item.value for item in node.elts if isinstance(item, ast.Constant)]
        return [int(bool(mark)) for mark in marks if mark in (0, 1)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return (_listed(node.left) + _listed(node.right))[: MOST_LAYERS + 1]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        pair = (
            (node.left, node.right)
            if isinstance(node.left, ast.List | ast.BinOp)
            else (node.right, node.left)
        )
        times = pair[1].value if isinstance(pair[1], ast.Constant) else None
        if type(times) is int and 0 <= times <= MOST_LAYERS:
            return (_listed(pair[0]) * times)[: MOST_LAYERS + 1]
    raise ValueError("no list of layers")


def model_record(sheet: Sheet) -> dict[str, Any] | None:
    """Return the record of the model, its vocabulary None where the flags do not say; None without layers."""
    layers, hidden = sheet.whole("--num-layers", "--encoder-num-layers"), sheet.whole("--hidden-size")
    stages = hybrid_stages(sheet, layers)
    symbols = "".join(stages or [])
    layers = len(symbols) or layers
    mixer = _mixer(sheet, hidden or 1)
    ffn = _dense(sheet, hidden or 1)
    windows, ropes = _per_layer(sheet, layers or 1)
    delta, linear = _linear(sheet, layers or 1)
    moe, sparse = _experts(sheet, ffn, layers or 1)
    prediction = sheet.whole("--mtp-num-layers")
    positions = str(sheet.take("--position-embedding-type") or "learned_absolute")
    rms = sheet.take("--normalization") == "RMSNorm"
    record: dict[str, Any] = {
        "hidden": hidden,
        "vocab": _vocabulary(sheet),
        "tied_embeddings": not sheet.has("--untie-embeddings-and-output-weights"),
        "max_positions": sheet.whole("--max-position-embeddings"),
        "learned_positions": positions == "learned_absolute",
        "norm": "rmsnorm" if rms else "layernorm",
        "norm_bias": not rms,
    }
    numerics = numerics_record(sheet, moe is not None)
    if record["learned_positions"] and record["max_positions"] is None:
        sheet.fault("--max-position-embeddings", "nothing", "a whole number: learned positions have so many")
    if layers is None or hidden is None or not 0 < layers <= MOST_LAYERS:
        return None
    if "E" in symbols and moe is None:
        sheet.fault("--num-experts", "nothing", "experts for the layers E of the pattern")
        return None
    space = state_space(sheet, hidden) if symbols else None
    blocks: dict[str, Any] = {}
    order = []
    for layer in range(layers):
        own = {} if windows[layer] is None else {"window": windows[layer]}
        rotary = (
            {"rotary": positions in ("rope", "yarn") and ropes[layer]} if mixer["kind"] == "attention" else {}
        )
        mixed = delta if delta is not None and linear[layer] else mixer | own | rotary
        block: dict[str, Any] = {"mixer": mixed, "ffn": moe if moe is not None and sparse[layer] else ffn}
        if symbols:
            part = {"M": space, "*": mixed, "-": ffn, "E": moe}[symbols[layer]]
            block = {PARTS[symbols[layer]]: part, "norms": 1}
        name = next((name for name, known in blocks.items() if known == block), f"block{len(blocks) + 1}")
        blocks[name] = block
        order.append(name)
    record |= {"blocks": blocks, "layers": order, "numerics": numerics}
    if symbols and (extra := prediction_symbols(sheet)):
        return record | _hybrid_prediction(sheet, blocks, extra, {"M": space, "*": mixed, "-": ffn, "E": moe})
    return record | _prediction(sheet, blocks, order[-1], prediction)


def _prediction(sheet: Sheet, blocks: dict[str, Any], last: str, layers: int | None) -> dict[str, Any]:
    """Return the prediction layers, which are as the last one is: one of its own where it is repeated."""
    again = sheet.has("--mtp-use-repeated-layer")
    if not layers:
        return {}
    if not again:
        return {"prediction": {"layers": layers, "block": last}}
    blocks["predicting"] = blocks[last]
    return {"prediction": {"layers": layers, "block": "predicting", "repeated": True}}


def _hybrid_prediction(
    sheet: Sheet, blocks: dict[str, Any], extra: list[str], parts: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the prediction layers of a hybrid, whose block joins the others."""
    mixed = {PARTS[symbol]: parts[symbol] for symbol in extra[0]}
    blocks["predicting"] = {**mixed, "norms": len(extra[0])}
    layers = sheet.whole("--mtp-num-layers") or len(extra)
    again = sheet.has("--mtp-use-repeated-layer")
    return {"prediction": {"layers": layers, "block": "predicting", "repeated": again}}


def _vocabulary(sheet: Sheet) -> int | None:
    """Return the vocabulary that is said, or that of a known tokenizer; a larger table has so many rows."""
    said = sheet.whole("--vocab-size", "--pad-vocab-size-to")
    kind = sheet.take("--tokenizer-type")
    model = sheet.take("--tokenizer-model", "--tokenizer-name-or-path")
    if said is not None or sheet.faulty("--vocab-size"):
        return _rows(sheet, said)
    known = vocabulary(kind, model)
    if known is not None:
        sheet.notes.append(f"no --vocab-size: {known:,} tokens, those of {model or kind}")
    return _rows(sheet, known)


def _rows(sheet: Sheet, tokens: int | None) -> int | None:
    """Return the rows of the table where more are said than tokens are padded to, else the tokens."""
    rows, step = number_of(sheet, "--padded-vocab-size"), number_of(sheet, PADDED_TO) or VOCAB_MULTIPLE
    if step != VOCAB_MULTIPLE:
        sheet.notes.append(f"{PADDED_TO} {step}: the table is priced as padded to {VOCAB_MULTIPLE} a rank")
    step *= number_of(sheet, "--tensor-model-parallel-size") or 1
    if rows is None or rows < 1 or step < 1 or (tokens is not None and rows <= -(-tokens // step) * step):
        return tokens
    sheet.notes.append(f"--padded-vocab-size {rows}: priced as a vocabulary of so many tokens")
    return rows


def _mixer(sheet: Sheet, hidden: int) -> dict[str, Any]:
    heads = sheet.whole("--num-attention-heads") or 1
    norm = sheet.has("--qk-layernorm")
    width = sheet.degree("--kv-channels") or max(1, hidden // heads)
    groups = sheet.whole("--num-query-groups")
    grouped = sheet.has("--group-query-attention")
    plain, qkv = sheet.has("--disable-bias-linear"), sheet.has("--add-qkv-bias")
    latent = sheet.has("--multi-latent-attention")
    size = sheet.degree if latent else sheet.whole
    ranks = sheet.whole("--q-lora-rank"), size("--kv-lora-rank")
    widths = [size(f"--{name}") for name in ("qk-head-dim", "qk-pos-emb-head-dim", "v-head-dim")]
    sinks = sheet.take("--softmax-type") == "learnable"
    gated = sheet.has("--attention-output-gate")
    indexer = indexer_record(sheet)
    if latent:
        return {
            "kind": "latent",
            "heads": heads,
            "q_lora_rank": ranks[0] or 0,
            "kv_lora_rank": ranks[1] or 32,
            "qk_nope_head_dim": widths[0] or 128,
            "qk_rope_head_dim": widths[1] or 64,
            "v_head_dim": widths[2] or 128,
            "output_bias": not plain,
            "indexer": indexer,
        }
    return {
        "kind": "attention",
        "heads": heads,
        "kv_heads": (groups or 1) if grouped else heads,
        "head_dim": width,
        "qkv_bias": qkv or not plain,
        "output_bias": not plain,
        "qk_norm": "head" if norm else "none",
        "sinks": sinks,
        "output_gate": gated,
    }


def _dense(sheet: Sheet, hidden: int) -> dict[str, Any]:
    gated = sheet.has("--swiglu", "--quick-geglu")
    usual = (8 * hidden // 3) // 64 * 64 if gated else 4 * hidden
    inner = sheet.whole("--ffn-hidden-size") or max(1, usual)
    return {"kind": "dense", "inner": inner, "gated": gated, "bias": not sheet.has("--disable-bias-linear")}


def _per_layer(sheet: Sheet, layers: int) -> tuple[list[int | None], list[bool]]:
    """Return for each layer its window, and whether it has rotary positions."""
    size = str(sheet.take("--window-size") or "").replace(",", " ").strip("() ").split()
    window = int(size[0]) + 1 if size and is_whole(size[0]) else None
    skip = str(sheet.take("--window-attn-skip-freq") or "")
    marks = _marks(sheet, "--window-attn-skip-freq", skip, layers) if skip else [True] * layers
    if is_whole(skip) and int(skip):
        marks = [(layer + 1) % int(skip) != 0 for layer in range(layers)]
    plain = str(sheet.take("--no-rope-freq") or "")
    without = _marks(sheet, "--no-rope-freq", plain, layers) if plain else [False] * layers
    if is_whole(plain) and int(plain):
        without = [(layer + 1) % int(plain) == 0 for layer in range(layers)]
    return [window if mark else None for mark in marks], [not mark for mark in without]


def _linear(sheet: Sheet, layers: int) -> tuple[dict[str, Any] | None, list[bool]]:
    """Return the gated delta net, where there is one, and for each layer whether it is its mixer."""
    delta, pattern = delta_mixer(sheet)
    if delta is None:
        return None, [False] * layers
    if is_whole(pattern) and int(pattern) > 0:
        return delta, [(layer + 1) % int(pattern) != 0 for layer in range(layers)]
    return delta, _marks(sheet, "--linear-attention-freq", pattern, layers)


def _marks(sheet: Sheet, key: str, text: str, layers: int) -> list[bool]:
    found = layer_pattern(text, layers)
    if found is None:
        sheet.fault(key, repr(text[:60]), f"a number, or a list of {layers} zeros and ones")
    return found or [False] * layers


def _experts(sheet: Sheet, dense: dict[str, Any], layers: int) -> tuple[dict[str, Any] | None, list[bool]]:
    count, top = sheet.whole("--num-experts"), sheet.degree("--moe-router-topk")
    width = sheet.degree("--moe-ffn-hidden-size")
    pattern = str(sheet.take("--moe-layer-freq") or "1")
    shared = sheet.whole("--moe-shared-expert-intermediate-size")
    gate, latent = sheet.has("--moe-shared-expert-gate"), sheet.whole("--moe-latent-size")
    routed_bias = dense["bias"]
    sparse = _marks(sheet, "--moe-layer-freq", pattern, layers)
    if count is None or count <= 1:
        return None, [False] * layers
    record = {
        "kind": "moe",
        "experts": count,
        "topk": top or 2,
        "inner": width or dense["inner"],
        "gated": dense["gated"],
        "bias": dense["bias"],
        "shared_inner": shared or 0,
        "shared_gate": gate,
        "latent": latent or 0,
        "router_bias": routed_bias,
    }
    return record, sparse
