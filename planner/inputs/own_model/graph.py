"""The graph of an exported model: its operators and parameters, without PyTorch."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import Final

from planner.dataclasses import dataclass, field, replace

Shape = tuple[int, ...]

PLACE = re.compile(r"^(.*?)(?:^|\.)(\d+)(?:\.|$)")
"""A list of layers and a place in it, from the path of a module or a parameter."""


@dataclass(frozen=True)
class Op:
    """One operator."""

    name: str
    """Of its result."""
    kind: str
    """As ``torch.ops.aten`` calls it: ``linear``, ``silu``."""
    reads: tuple[str, ...] = ()
    """Tensors that it reads, parameters left out."""
    weights: tuple[str, ...] = ()
    """Parameters that it reads."""
    shape: Shape = ()
    """Of its result."""
    path: str = ""
    """The module that runs it."""
    flops: int = 0
    """Of a product, forward. [FLOP]"""
    causal: bool = False
    """Of attention: whether it is said to be causal, or has a mask."""


@dataclass(frozen=True)
class Graph:
    """An exported model, run on ``tokens`` tokens."""

    ops: tuple[Op, ...]
    """In their order."""
    params: Mapping[str, Shape]
    """Shape of each parameter, shared ones once."""
    tokens: int
    """Of one sequence. [-]"""
    inputs: frozenset[str] = field(default_factory=frozenset)
    """Names of the token ids."""

    @cached_property
    def by_name(self) -> dict[str, Op]:
        """Each operator by its result."""
        return {op.name: op for op in self.ops}

    @cached_property
    def readers(self) -> dict[str, list[Op]]:
        """The operators that read each result."""
        found: dict[str, list[Op]] = {}
        for op in self.ops:
            for name in op.reads:
                found.setdefault(name, []).append(op)
        return found

    def size(self, name: str) -> int:
        """Elements of a parameter. [element]"""
        return prod(self.params[name])

    def width(self, op: Op) -> tuple[int, int]:
        """Inputs and outputs of a linear layer. [element]"""
        outputs, inputs = self.params[op.weights[0]]
        return inputs, outputs

    def behind(self, names: Iterable[str], stop: Collection[str], residuals: int = 0) -> Iterator[Op]:
        """Walk back from results, each operator once; not past those whose kind is in ``stop``.

        Nor past a sum of two tensors as wide as ``residuals``, where that is a width.
        """
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            op = self.by_name.get(waiting.pop())
            if op is None or op.name in seen:
                continue
            seen.add(op.name)
            yield op
            summed = op.kind in ("add", "add_") and len(op.reads) == 2 and op.shape[-1] == residuals
            if op.kind not in stop and not summed:
                waiting += op.reads

    def ahead(self, name: str, stop: Collection[str]) -> Iterator[Op]:
        """Walk on from a result, each operator once; not past those whose kind is in ``stop``."""
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for op in self.readers.get(waiting.pop(), ()):
                if op.name not in seen:
                    seen.add(op.name)
                    yield op
                    waiting += [op.name] if op.kind not in stop else []


def with_cores(graph: Graph) -> Graph:
    """Return the graph with attention by hand, two products and a softmax between, as one operator."""
    made: dict[str, Op] = {}
    inner: set[str] = set()
    for op in graph.ops:
        if op.kind not in ("softmax", "_softmax") or op.shape[-2:] != (graph.tokens, graph.tokens):
            continue
        scores = next((one for one in graph.behind(op.reads, PRODUCTS) if one.kind in PRODUCTS), None)
        mixed = next((one for one in graph.ahead(op.name, PRODUCTS) if one.kind in PRODUCTS), None)
        if scores is None or mixed is None or len(scores.reads) != 2 or len(mixed.reads) != 2:
            continue
        between = [one.kind for one in graph.behind(op.reads, PRODUCTS)]
        causal = bool({"masked_fill", "masked_fill_", "where", "add", "add_"} & set(between))
        shares, values = _apart(graph, op, mixed)
        inner |= {one.name for one in graph.behind([shares], PRODUCTS) if one.shape.count(graph.tokens) > 1}
        reads = (*scores.reads, values)
        made[mixed.name] = replace(mixed, kind=CORE, reads=reads, flops=0, causal=causal)
    kept = tuple(made.get(op.name, op) for op in graph.ops if op.name not in inner)
    return replace(graph, ops=kept) if made else graph


def _apart(graph: Graph, softmax: Op, mixed: Op) -> tuple[str, str]:
    """Return which of the two tensors of a product the softmax leads to, and the other."""
    first, second = mixed.reads
    led = {softmax.name, *(op.name for op in graph.ahead(softmax.name, PRODUCTS))}
    return (first, second) if first in led else (second, first)


CORE: Final = "scaled_dot_product_attention"
PRODUCTS: Final = frozenset({"matmul", "bmm"})


def place_of(path: str) -> tuple[str, int] | None:
    """Return the list and the number of the layer that a path lies in, or None outside of layers.

    Examples
    --------
    >>> place_of("model.layers.3.mlp.0.weight")
    ('model.layers', 3)
    """
    match = PLACE.match(path)
    return (match[1], int(match[2])) if match else None
