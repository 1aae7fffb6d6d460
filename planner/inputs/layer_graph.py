"""A graph of layers with times and bytes, as a YAML, JSON or CSV file has it."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.record import Bytes, Record, Seconds, Sourced
from planner.inputs.yaml_file import read_yaml

MOST_LAYERS = 400
"""Layers of a graph: beyond, an integer program has no answer in useful time. [-]"""

COLUMNS = ("name", "forward", "backward", "weights", "kept", "after")
"""Columns of a CSV; ``after`` has sources and their bytes, as ``conv1=2 MB; pool=1 MB``."""


class GraphLayer(Record):
    """One layer: its times and bytes for one micro-batch, and the layers that it reads.

    ``weights`` is all that stays whatever the micro-batches: weights, gradients, optimizer states. ``kept``
    is what one micro-batch leaves for backward. ``after`` has the bytes of each result that it reads; a
    result that several layers read is one tensor.
    """

    name: str = Field(min_length=1, max_length=60)
    forward: Seconds
    backward: Seconds
    weights: Bytes = Sourced(0.0)
    kept: Bytes = Sourced(0.0)
    after: dict[str, Bytes] = Field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Time of both passes. [s]"""
        return float(self.forward) + float(self.backward)


class LayerGraph(Record):
    """All layers, each after those that it reads."""

    format: Literal["planner/graph/1"] = "planner/graph/1"
    layers: Annotated[tuple[GraphLayer, ...], Field(min_length=1, max_length=MOST_LAYERS)]

    def results(self) -> list[tuple[int, float, tuple[int, ...]]]:
        """Return of each result that is read its layer, its bytes, and the layers that read it."""
        places = {layer.name: place for place, layer in enumerate(self.layers)}
        readers: dict[int, list[int]] = {}
        sizes: dict[int, float] = {}
        for place, layer in enumerate(self.layers):
            for name, nbytes in layer.after.items():
                source = places[name]
                readers.setdefault(source, []).append(place)
                sizes[source] = max(sizes.get(source, 0.0), float(nbytes))
        return [(source, sizes[source], tuple(places)) for source, places in sorted(readers.items())]


def load_graph(path: Path) -> LayerGraph:
    """Return the graph of a file, its layers in an order in which each is after those that it reads.

    Raises `InputError` if it cannot be read, or is wrong: all faults at once.
    """
    raw = _read_csv(path) if path.suffix.lower() == ".csv" else read_yaml(path)
    found = build(LayerGraph, raw, str(path))
    names = [layer.name for layer in found.layers]
    problems = [
        Problem(f"{path}: layers.name", repr(name), "a name of its own for each layer")
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    problems += [
        Problem(f"{path}: layers.{layer.name}.after", repr(name), "a layer of the file", nearest(name, names))
        for layer in found.layers
        for name in layer.after
        if name not in names
    ]
    if not any(layer.seconds > 0 for layer in found.layers):
        problems.append(Problem(f"{path}: layers", "no time at all", "some layer that takes time"))
    if problems:
        raise InputError(problems)
    return LayerGraph(layers=tuple(_ordered(found.layers, path)))


def _ordered(layers: tuple[GraphLayer, ...], path: Path) -> list[GraphLayer]:
    """Return the layers in the file's order where it is one, each as early as what it reads allows."""
    done: dict[str, GraphLayer] = {}
    left = list(layers)
    while left:
        ready = next((layer for layer in left if set(layer.after) <= set(done)), None)
        if ready is None:
            circle = ", ".join(layer.name for layer in left[:5])
            raise InputError(
                Problem(f"{path}: layers", f"a circle among {circle}", "layers without a circle")
            )
        done[ready.name] = ready
        left.remove(ready)
    return list(done.values())


def _read_csv(path: Path) -> Mapping[str, Any]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            table = csv.DictReader(stream)
            strange = [name for name in table.fieldnames or () if name not in COLUMNS]
            if strange:
                near = nearest(strange[0], COLUMNS)
                raise InputError(Problem(f"{path}: columns", repr(strange[0]), ", ".join(COLUMNS), near))
            rows = list(table)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Problem(str(path), str(error)[:100], "a CSV file that can be read")) from None
    return {"layers": [_row(row, f"{path}:{number}") for number, row in enumerate(rows, 2)]}


def _row(row: Mapping[str | None, Any], place: str) -> dict[str, Any]:
    if None in row:
        raise InputError(Problem(place, "more cells than columns", f"the columns {', '.join(COLUMNS)}"))
    told: dict[str, Any] = {str(key): text.strip() for key, text in row.items() if text and text.strip()}
    if "after" in told:
        pairs = [pair.partition("=") for pair in told["after"].split(";") if pair.strip()]
        if any(not equals for _, equals, _ in pairs):
            raise InputError(Problem(f"{place}: after", repr(told["after"]), "pairs such as conv1=2 MB"))
        told["after"] = {name.strip(): nbytes.strip() for name, _, nbytes in pairs}
    return told
