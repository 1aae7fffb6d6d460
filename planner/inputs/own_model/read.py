"""A model of one's own as the planner's record: exact in its parameters, what is no known part told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.model import ModelSpec
from planner.inputs.own_model.fold import STOPS, Folded, folded_layer
from planner.inputs.own_model.graph import Graph, Op, place_of, with_cores
from planner.inputs.own_model.trace import traced

SPOKEN: Final = re.compile(r"(.+\.py):([A-Za-z_]\w*)")
"""A Python file and the name of a model in it."""


def own_model(text: str) -> tuple[Path, str] | None:
    """Return the file and the name that ``text`` says, or None where it says no model of a Python file."""
    match = SPOKEN.fullmatch(text)
    return (Path(match[1]), match[2]) if match else None


def read_own_model(file: Path, model: str, name: str = "") -> tuple[ModelSpec, tuple[str, ...]]:
    """Run a Python file and return its model, and what had to be assumed.

    Raises `InputError` if it cannot be exported, or is no stack of layers between an embedding and a head.
    """
    return model_of_graph(traced(file, model), f"{file}:{model}", name or model.lower())


def model_of_graph(graph: Graph, where: str, name: str) -> tuple[ModelSpec, tuple[str, ...]]:
    """Return the model that a graph is; ``where`` names it in messages."""
    graph = with_cores(graph)
    layers = _layers(graph, where)
    ends = [op for op in graph.ops if place_of(op.path) is None and not _in_layer(op)]
    embedding, positions = _embeddings(graph, ends, where)
    vocab, hidden = graph.params[embedding.weights[0]]
    head = _head(graph, ends, vocab, hidden, where)
    folded = {
        layer: folded_layer(graph, ops, params, hidden, f"{where}: layer {layer}")
        for layer, (ops, params) in layers.items()
    }
    tied = head.weights[0] == embedding.weights[0]
    used = {*embedding.weights, *head.weights, *(positions.weights if positions else ())}
    last, biased = _last_norm(graph, ends, used, hidden)
    record = _record(name, list(folded.values()))
    layered = [op for op in graph.ops if op.kind in ("layer_norm", "native_layer_norm")]
    record |= {
        "hidden": hidden, "vocab": vocab, "tied_embeddings": tied, "final_norm": bool(last),
        "learned_positions": positions is not None, "norm": "layernorm" if layered else "rmsnorm",
        "norm_bias": biased or any(one.norm_biases for one in folded.values()),
    }  # fmt: skip
    if positions is not None:
        record["max_positions"] = graph.params[positions.weights[0]][0]
    told = {
        "head-bias": len(head.weights) > 1,
        "parallel-blocks": any(one.side_by_side for one in folded.values()),
        "norms-after": any(one.norms_after for one in folded.values()),
    }
    record["variants"] = [name for name, there in told.items() if there]
    spec = build(ModelSpec, record, where)
    total = sum(graph.size(key) for key in graph.params)
    if spec.params != total:
        found = f"{total:,} parameters, of which known layers make {spec.params:,}"
        raise InputError(Problem(where, found, "layers, an embedding, a norm and a head alone"))
    notes = _notes(folded)
    return build(ModelSpec, record | {"note": "; ".join(notes)}, where), notes


def _in_layer(op: Op) -> bool:
    return any(place_of(name) is not None for name in op.weights)


def _layers(graph: Graph, where: str) -> dict[int, tuple[list[Op], list[str]]]:
    """Return the operators and parameters of each layer of the one list that there is."""
    paths = [*graph.params, *(op.path for op in graph.ops)]
    lists = Counter(found[0] for path in paths if (found := place_of(path)))
    if len(lists) != 1:
        expected = "one nn.ModuleList of layers"
        raise InputError(Problem(where, f"{len(lists)} lists of modules: {', '.join(lists)}"[:120], expected))
    layers: dict[int, tuple[list[Op], list[str]]] = {}
    for name in graph.params:
        if found := place_of(name):
            layers.setdefault(found[1], ([], []))[1].append(name)
    for op in graph.ops:
        place = place_of(op.path) or next(filter(None, map(place_of, op.weights)), None)
        if place:
            layers.setdefault(place[1], ([], []))[0].append(op)
    return dict(sorted(layers.items()))


def _embeddings(graph: Graph, ends: Sequence[Op], where: str) -> tuple[Op, Op | None]:
    """Return the lookup of token ids, and that of places where they are learned."""
    lookups = [op for op in ends if op.kind == "embedding"]
    tokens = [
        op
        for op in lookups
        if graph.inputs & {*op.reads, *(name for one in graph.behind(op.reads, ()) for name in one.reads)}
    ]
    others = [op for op in lookups if op not in tokens]
    if len(tokens) != 1 or len(others) > 1:
        raise InputError(
            Problem(where, f"{len(tokens)} embeddings of the token ids", "one, and one of places")
        )
    return tokens[0], others[0] if others else None


def _head(graph: Graph, ends: Sequence[Op], vocab: int, hidden: int, where: str) -> Op:
    found = [op for op in ends if op.kind == "linear" and graph.width(op) == (hidden, vocab)]
    if len(found) != 1:
        expected = f"a linear layer of {hidden} by {vocab} after the layers"
        raise InputError(Problem(where, f"{len(found)} heads", expected))
    return found[0]


def _last_norm(graph: Graph, ends: Sequence[Op], used: set[str], hidden: int) -> tuple[int, bool]:
    """Return how many norms stand outside of layers, and whether one has a bias."""
    vectors = [
        [name for name in op.weights if graph.params[name] == (hidden,) and name not in used]
        for op in ends
        if op.kind not in STOPS
    ]
    there = [found for found in vectors if found]
    return len(there), any(len(found) > 1 for found in there)


def _record(name: str, layers: Sequence[Folded]) -> dict[str, Any]:
    kinds: list[dict[str, Any]] = []
    for one in layers:
        if one.block not in kinds:
            kinds.append(one.block)
    names = ["layer" if len(kinds) == 1 else f"layer-{place + 1}" for place in range(len(kinds))]
    order = [names[kinds.index(one.block)] for one in layers]
    words = {one.activation for one in layers if one.activation}
    numbers = {"activation": words.pop()} if len(words) == 1 else {}
    return {
        "name": name,
        "blocks": dict(zip(names, kinds, strict=True)),
        "layers": order,
        "numerics": numbers,
    }


def _notes(folded: dict[int, Folded]) -> tuple[str, ...]:
    """Say what was assumed, and what is priced by roofline alone."""
    notes = [
        "elementwise operators are taken as those of norms, positions, residuals and activations",
        "numbers that no shape shows, such as the base of positions, are not read: say them under numerics",
    ]
    if any(one.mixer and one.mixer.get("causal", True) for one in folded.values()):
        notes.append("attention with a mask is taken as causal over the whole sequence")
    own = Counter(
        extra.get("name", f"linear {extra.get('inputs')} to {extra.get('outputs')}")
        for one in folded.values()
        for extra in one.extras
    )
    if own:
        listed = ", ".join(f"{count} {name}" for name, count in own.items())
        notes.append(f"of no known part, priced by what they move and compute: {listed}")
    return tuple(notes)
