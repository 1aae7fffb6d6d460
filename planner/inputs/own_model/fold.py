"""Fold the operators of one layer into a mixer, a feed-forward and norms; the rest stands by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.own_model.graph import CORE, Graph, Op

STOPS: Final = frozenset({"linear", CORE, "embedding"})
"""Where a walk along the operators of a layer ends."""

ACTIVATIONS: Final = {
    "silu": "silu", "silu_": "silu", "sigmoid": "silu", "gelu": "gelu", "gelu_tanh": "gelu_tanh",
    "tanh": "gelu_tanh", "relu": "relu", "relu_": "relu",
}  # fmt: skip
"""Kinds of the feed-forward's activation, as the model's numbers call them."""

SMALL: Final = frozenset(
    re.findall(
        r"\w+",
        """
    bitwise_not bitwise_and add add_ sub mul mul_ div neg pow mean sum rsqrt sqrt square silu
    silu_ gelu gelu_tanh relu relu_ sigmoid tanh exp log softmax _softmax layer_norm rms_norm
    native_layer_norm dropout view reshape transpose permute expand contiguous clone unsqueeze
    squeeze slice select getitem chunk split split_with_sizes unbind cat stack repeat_interleave
    repeat to _to_copy type_as float half bfloat16 detach alias lift_fresh_copy cos sin outer
    arange ones zeros full ones_like zeros_like full_like triu tril masked_fill masked_fill_ where
    eq ne lt le gt ge logical_not logical_and view_as view_as_complex view_as_real flatten
    unflatten movedim index expand_as reciprocal abs maximum minimum clamp scalar_tensor empty
    polar narrow rsub _assert_tensor_metadata
    """,
    )
)
"""Operators of norms, positions, residuals and activations, and those that move nothing or once."""


@dataclass
class Folded:
    """A layer: the fields of its block, and what is told of it."""

    mixer: dict[str, Any] | None = None
    ffn: dict[str, Any] | None = None
    norms: int = 0
    norm_biases: int = 0
    activation: str = ""
    extras: list[dict[str, Any]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    side_by_side: bool = False
    norms_after: bool = False

    @property
    def block(self) -> dict[str, Any]:
        """The fields of the block."""
        parts = {"mixer": self.mixer, "ffn": self.ffn, "extras": self.extras}
        return {key: value for key, value in parts.items() if value} | {"norms": self.norms}


def folded_layer(graph: Graph, ops: Sequence[Op], params: Sequence[str], hidden: int, where: str) -> Folded:
    """Return a layer of the operators ``ops`` and the parameters ``params`` as a block.

    Raises `InputError` if it has attention that no mixer expresses.
    """
    found = Folded()
    linears = [op for op in ops if op.kind == "linear"]
    cores = [op for op in ops if op.kind == CORE]
    if len(cores) > 1:
        raise InputError(Problem(where, f"{len(cores)} attentions in a layer", "one"))
    if cores:
        linears = _attention(graph, cores[0], linears, where, found)
    attends, rest = [op for op in ops if op.kind == "linear" and op not in linears], linears
    linears = _feed_forward(graph, linears, hidden, found)
    _norms(graph, ops, hidden, found)
    parts = attends, [op for op in rest if op not in linears]
    _order(graph, params, hidden, parts, where, found)
    for op in linears:
        inputs, outputs = graph.width(op)
        biased = len(op.weights) > 1
        found.extras.append({"kind": "product", "inputs": inputs, "outputs": outputs, "bias": biased})
        found.used |= {*op.weights}
    _others(graph, ops, params, where, found)
    return found


def _attention(graph: Graph, core: Op, linears: list[Op], where: str, found: Folded) -> list[Op]:
    """Take the linear layers of attention; return those that are left."""
    sides = [list(graph.behind([name], STOPS)) for name in core.reads[:3]]
    makers = [[op for op in side if op.kind == "linear"] for side in sides]
    queries, values = (graph.by_name[core.reads[place]].shape for place in (0, 2))
    heads, size, wide = queries[1], queries[-1], values[-1]
    if any(len(side) != 1 for side in makers) or len({one[0].name for one in makers}) not in (1, 3):
        count = len({op.name for side in makers for op in side})
        expected = "queries, keys and values each of one linear layer, or all of one"
        raise InputError(Problem(where, f"attention that {count} linear layers lead to", expected))
    query, key, value = (side[0] for side in makers)
    if query is key:
        kv_heads = (graph.width(query)[1] - heads * size) / (size + wide)
    else:
        kv_heads = graph.width(key)[1] / size
    out = next((op for op in graph.ahead(core.name, STOPS) if op.kind == "linear"), None)
    if out is None or kv_heads != int(kv_heads) or not 1 <= kv_heads <= heads or heads % int(kv_heads):
        raise InputError(Problem(where, f"{kv_heads:g} key/value heads of {size}", "a divisor of the heads"))
    biases = [len(op.weights) > 1 for op in (query, key, value)]
    if biases not in ([False] * 3, [True] * 3, [True, False, True]):
        raise InputError(
            Problem(where, "biases on some of queries, keys and values", "on all, none, or not on keys")
        )
    mixer: dict[str, Any] = {"kind": "attention", "heads": heads, "kv_heads": int(kv_heads), "head_dim": size}
    optional = {
        "v_head_dim": wide if wide != size else None,
        "qkv_bias": biases[0],
        "output_bias": len(out.weights) > 1,
        "qk_norm": _head_norm(graph, sides[:2], (heads, size), where, found),
    }
    mixer |= {name: one for name, one in optional.items() if one}
    mixer |= {} if biases[0] == biases[1] else {"key_bias": False}
    mixer |= {} if core.causal else {"causal": False}
    mixer |= {} if _turned(graph, sides[0]) else {"rotary": False}
    found.mixer, taken = mixer, [query, key, value, out]
    found.used |= {name for op in taken for name in op.weights}
    return [op for op in linears if op not in taken]


def _head_norm(
    graph: Graph, sides: Sequence[Sequence[Op]], shape: tuple[int, int], where: str, found: Folded
) -> str:
    """Return the norm of queries and keys, from the weights between their products and attention."""
    heads, size = shape
    weights = [sorted({name for op in side if op.kind not in STOPS for name in op.weights}) for side in sides]
    if not any(weights):
        return ""
    shapes = [[graph.params[name] for name in side] for side in weights]
    found.used |= {name for side in weights for name in side}
    if shapes == [[(size,)], [(size,)]]:
        return "head"
    if shapes == [[(size,)] * 2] * 2:
        return "head-bias"
    if all(len(side) == 1 and prod(side[0]) >= size for side in shapes) and shapes[0][0] == (heads * size,):
        return "full"
    raise InputError(
        Problem(where, f"weights {shapes} on queries and keys", "a norm of each head, or of all")
    )


def _turned(graph: Graph, side: Sequence[Op]) -> bool:
    """Whether queries are multiplied by something that no linear layer made: sines and cosines of places."""
    inside = {op.name for op in side}
    for op in side:
        if op.kind in ("mul", "mul_") and len(op.reads) == 2 and not op.weights:
            made = [[one.kind for one in graph.behind([name], STOPS)] for name in op.reads]
            if any("linear" not in kinds for kinds in made) and any(name in inside for name in op.reads):
                return True
    return False


def _feed_forward(graph: Graph, linears: list[Op], hidden: int, found: Folded) -> list[Op]:
    """Take the linear layers of a feed-forward: those between which an activation stands."""
    for out in linears:
        inner, outputs = graph.width(out)
        path = [op for op in graph.behind(out.reads, STOPS)]
        words = [ACTIVATIONS[op.kind] for op in path if op.kind in ACTIVATIONS]
        into = [op for op in path if op.kind == "linear" and op in linears]
        widths = [graph.width(op) for op in into]
        gated = widths == [(hidden, inner)] * 2 or widths == [(hidden, 2 * inner)]
        if not words or outputs != hidden or not (gated or widths == [(hidden, inner)]):
            continue
        biases = {len(op.weights) > 1 for op in (*into, out)}
        if len(biases) > 1:
            continue
        ffn: dict[str, Any] = {"kind": "dense", "inner": inner}
        found.ffn = ffn | ({} if gated else {"gated": False}) | ({"bias": True} if biases == {True} else {})
        squared = any(op.kind in ("square", "pow") for op in path)
        found.activation = "relu2" if words[0] == "relu" and squared else words[0]
        found.used |= {name for op in (*into, out) for name in op.weights}
        return [op for op in linears if op is not out and op not in into]
    return linears


def _order(
    graph: Graph, params: Sequence[str], hidden: int, parts: tuple[list[Op], list[Op]], where: str,
    found: Folded,
) -> None:  # fmt: skip
    """Tell whether both parts read one stream, and whether norms stand before them or on their results."""
    attends, feeds = parts
    if not attends or not feeds:
        return
    found.side_by_side = all(op.name != attends[-1].name for op in graph.behind(feeds[0].reads, STOPS))
    before = [op for one in (attends[0], feeds[0]) for op in graph.behind(one.reads, STOPS, hidden)]
    normed = {name for op in before if op.kind not in STOPS for name in op.weights}
    found.norms_after = found.norms > 0 and not normed
    if normed - set(params):
        strange, expected = "norms of another layer before it", "norms in the layer that they serve"
        raise InputError(Problem(where, strange, expected))


def _norms(graph: Graph, ops: Sequence[Op], hidden: int, found: Folded) -> None:
    """Count the norms of a layer by their weights, and those that have a bias."""
    for op in ops:
        vectors = [name for name in op.weights if graph.params[name] == (hidden,) and name not in found.used]
        if op.kind in ("layer_norm", "native_layer_norm") and vectors:
            found.norm_biases += len(vectors) > 1
        if op.kind in ("layer_norm", "native_layer_norm", "rms_norm", "mul", "mul_") and vectors:
            found.norms += 1
            found.used |= {*vectors}


def _unmade(graph: Graph, ops: Sequence[Op]) -> set[str]:
    """Return what no product makes: masks and places."""
    return {
        op.name
        for op in ops
        if not op.weights and not any(one.kind in STOPS for one in graph.behind([op.name], STOPS))
    }


def _others(graph: Graph, ops: Sequence[Op], params: Sequence[str], where: str, found: Folded) -> None:
    """Price what is left by what a token moves and computes in it, with the parameters that it reads."""
    unmade = _unmade(graph, ops)
    for op in ops:
        if op.name in unmade:
            continue
        own = [name for name in dict.fromkeys(op.weights) if name not in found.used]
        if op.kind in STOPS or (op.kind in SMALL and not own):
            continue
        if op.shape.count(graph.tokens) > 1:
            expected = "operators whose cost grows with the tokens, attention aside"
            raise InputError(Problem(f"{where}: {op.path}", f"{op.kind} of {op.shape}", expected))
        if (
            any(len(graph.params[name]) > 2 and graph.params[name][1] > 1 for name in own)
            and "conv" not in op.kind
        ):
            expected = "no experts by hand: import the config.json of such a model, or write its YAML"
            raise InputError(Problem(f"{where}: {op.path}", f"weights of {graph.params[own[0]]}", expected))
        read = sum(prod(graph.by_name[name].shape) for name in op.reads if name in graph.by_name)
        moved, kept = (read + prod(op.shape)) // graph.tokens, read // graph.tokens
        size = sum(graph.size(name) for name in own)
        one = {
            "kind": "other",
            "name": op.kind,
            "moved": moved,
            "kept": kept,
            "flops": -(-op.flops // graph.tokens),
        }
        found.extras.append({key: value for key, value in (one | {"params": size}).items() if value})
        found.used |= {*own}
    left = [name for name in params if name not in found.used]
    if left:
        size = sum(graph.size(name) for name in left)
        found.extras.append({"kind": "other", "name": "parameters that no operator reads", "params": size})
        found.used |= {*left}
