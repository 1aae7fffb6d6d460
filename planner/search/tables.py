"""What many rows of a scan share: stages of a pipeline, and layers priced for the degrees they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case
from planner.cost.layer.block_cost import PricedLayer
from planner.cost.layer.layer_costs import LayerCost, taken
from planner.cost.stages import Piece, Stages, both_ways, deciding_ranks, stage_table
from planner.cost.step.layout import (
    LAYER_AXES,
    layer_techniques,
    piece_costs,
    pipeline_ranks,
    priced_layers,
    usual_split,
)
from planner.cost.step.step import total_table
from planner.dataclasses import fields, is_dataclass, replace
from planner.numeric import Column, Num
from planner.plan import Plan

FAR_BATCH = 1e6
"""Micro-batches at which ranks are compared for what they hold in flight."""

MOST_LABELS = 2**26
"""Labels that have a table of their own; beyond, they are sorted."""

Rows = NDArray[np.intp]


def representatives(labels: Rows) -> tuple[Rows, Rows]:
    """Return the place of one row of each label, by rising labels, and for each row which of them it has.

    Examples
    --------
    >>> places, which = representatives(np.array([4, 1, 4]))
    >>> places.tolist(), which.tolist()
    ([1, 0], [1, 0, 1])
    """
    if labels.max(initial=0) > MOST_LABELS:
        labels = np.searchsorted(np.unique(labels), labels)
    present = np.zeros(int(labels.max(initial=-1)) + 1, dtype=bool)
    present[labels] = True
    which = (np.cumsum(present) - 1)[labels]
    places = np.empty(int(np.count_nonzero(present)), dtype=np.intp)
    places[which[::-1]] = np.arange(len(labels))[::-1]
    return places, which


def distinct(columns: Sequence[Column]) -> tuple[list[Column], Rows]:
    """Return the distinct combinations of columns of whole numbers, rising, and for each row which it has.

    Examples
    --------
    >>> values, which = distinct([np.array([2.0, 1.0, 2.0]), np.array([5.0, 4.0, 5.0])])
    >>> [column.tolist() for column in values], which.tolist()
    ([[1.0, 2.0], [4.0, 5.0]], [1, 0, 1])
    """
    which, count = np.zeros(len(columns[0]), dtype=np.intp), 1
    first: Rows = np.zeros(min(1, len(columns[0])), dtype=np.intp)
    for column in columns:
        places, labels = representatives(column.astype(np.intp))
        if len(places) > 1:
            first, which = representatives(labels if count == 1 else which * len(places) + labels)
            count = len(first)
    return [column[first] for column in columns], which


T = TypeVar("T")


def taken_rows(record: T, rows: Rows, size: int) -> T:
    """Return some of the rows of a record whose columns have ``size`` of them along their last axis.

    What is one number for all rows stays, and so do names.

    Examples
    --------
    >>> taken_rows({"a": np.array([1.0, 2.0, 3.0]), "b": 4.0}, np.array([2]), 3)
    {'a': array([3.]), 'b': 4.0}
    """
    if isinstance(record, np.ndarray):
        column = record.ndim > 0 and record.shape[-1] == size
        return record.take(rows, axis=-1) if column else record  # type: ignore[return-value]
    if isinstance(record, Mapping):
        return {name: taken_rows(value, rows, size) for name, value in record.items()}  # type: ignore[return-value]
    if is_dataclass(record) and not isinstance(record, type):
        parts = {field.name: taken_rows(getattr(record, field.name), rows, size) for field in fields(record)}
        return replace(record, **parts)
    return record


class StageTables:
    """What the deciding ranks hold for each distinct (pp, vpp), by schedule and recompute choice."""

    def __init__(self, rows: Plan, split: tuple[int, ...] | None = None) -> None:
        self.split = split
        self.pairs, self.which = distinct([np.asarray(rows.pp), np.asarray(rows.vpp)])
        self._known: dict[tuple[str, object], tuple[Stages, dict[Piece, Num]]] = {}

    def stages(self, case: Case, rows: Rows) -> tuple[Stages, dict[Piece, Num]]:
        """Return the stages of some rows, and the pieces of the whole model."""
        key = (case.schedule.name, case.recompute)
        if key not in self._known:
            self._known[key] = self._table(case)
        table, totals = self._known[key]
        index = self.which[rows]
        return table.taken(index), {
            piece: count if isinstance(count, float) else count[index] for piece, count in totals.items()
        }

    def _table(self, case: Case) -> tuple[Stages, dict[Piece, Num]]:
        all_ranks, deciding = [], []
        for pp, vpp in np.stack(self.pairs, axis=1).astype(int).tolist():
            split = self.split or usual_split(case, pp * vpp)
            ranks = both_ways(pipeline_ranks(case, (pp, vpp), split), case.schedule)
            in_flight = case.schedule.chunks_alive(
                float(pp), float(vpp), FAR_BATCH, np.arange(pp, dtype=float)
            )
            all_ranks.append(ranks)
            deciding.append(deciding_ranks(ranks, np.broadcast_to(in_flight, (pp,))))
        return stage_table(all_ranks, deciding), total_table(all_ranks)


class LayerGrid:
    """Distinct combinations of the degrees that a layer's cost depends on, each priced once.

    ``rows``: degrees as columns of one length; ``wanted``: rows that will be asked for.
    """

    def __init__(self, rows: Plan, wanted: Rows) -> None:
        columns = [np.asarray(getattr(rows, axis))[wanted] for axis in LAYER_AXES]
        values, which = distinct(columns)
        self.plan = Plan(**dict(zip(LAYER_AXES, values, strict=True)))  # type: ignore[arg-type]
        self.which = np.full(len(np.atleast_1d(rows.tp)), -1, dtype=np.intp)
        self.which[wanted] = which
        self._layers: dict[object, dict[str, PricedLayer]] = {}
        self._costs: dict[object, dict[Piece, LayerCost]] = {}

    def costs(self, case: Case, pieces: Sequence[Piece], rows: Rows) -> dict[Piece, LayerCost]:
        """Return the cost of each piece for some rows."""
        index = self.which[rows]
        return {piece: taken(cost, index) for piece, cost in self._priced(case, pieces).items()}

    def _priced(self, case: Case, pieces: Sequence[Piece]) -> dict[Piece, LayerCost]:
        techniques = layer_techniques(case)
        layers = self._layers.setdefault(techniques, {})
        layers |= priced_layers(case, self.plan, [piece for piece in pieces if piece[0] not in layers])
        known = self._costs.setdefault((case.recompute, techniques), {})
        new = [piece for piece in pieces if piece not in known]
        known |= piece_costs(case, self.plan, layers, new)
        return known
