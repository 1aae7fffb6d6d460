"""The space of plans: degrees whose product is the cluster and that divide batch, layers and experts.

Rows are made axis by axis, so that a combination that cannot be completed is never spelled out; the report
still counts every cell of the full grid that it stood for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.dataclasses import dataclass, field, replace
from planner.inputs.model import ModelSpec
from planner.numeric import Column
from planner.plan import Plan
from planner.rules import Mask, divisors, most_stages, structural_rules
from planner.runtimes.family import Job

AXES = ("tp", "cp", "pp", "micro_batch", "vpp", "ep", "etp")
"""Axes of the grid, in the order in which rows are made; dp and the number of micro-batches follow."""

MANY_CHUNKS = 16
"""Chunks per rank beyond which only even splits of the layers are tried."""


SHORT_CHUNKS = 3
"""Chunks that may have a layer less: those with the embedding, the head, and an extra prediction layer."""


@dataclass(frozen=True)
class Space:
    """Structurally legal plans, one a row, and what was left out."""

    rows: Plan
    """Degrees as columns of one length."""
    cells: int
    """Cells of the full grid."""
    removed: Counter[str] = field(default_factory=Counter)
    """Cells removed by each structural rule."""
    nearly: Plan | None = None
    """Where no row is left, those that got the farthest, if any: they break what the user has fixed."""

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(np.atleast_1d(self.rows.tp))


def widest_mixer(model: ModelSpec) -> int:
    """Return the heads of the mixer that has most of them, those with a state of their own included. [-]"""
    heads = [mixer.heads for mixer in model.attentions]
    return int(max([1, *heads, *(mixer.state_heads for mixer in model.recurrents)]))


def axis_values(
    job: Job, fixed: Mapping[str, int], bare_ends: bool = False, split: tuple[int, ...] | None = None
) -> dict[str, list[int]]:
    """Return the values of every axis: divisors of what the axis divides, or the user's own."""
    model, gpus = job.model, job.gpus
    most = most_stages(model, bare_ends, split)
    stages = [pp for pp in divisors(gpus) if pp <= most]
    experts = [ffn.experts for ffn in model.expert_kinds]
    widest = widest_mixer(model)
    values = {
        "tp": [tp for tp in divisors(gpus) if tp <= widest],
        "cp": [cp for cp in divisors(gpus) if 2 * cp <= job.workload.seq_len or cp == 1],
        "pp": stages,
        "micro_batch": divisors(job.workload.global_batch),
        "vpp": _chunk_counts(range(model.num_layers, most + 1), stages),
        "ep": [ep for ep in divisors(gpus) if all(count % ep == 0 for count in experts)] if experts else [1],
        "etp": divisors(gpus) if experts else [1],
    }
    return {axis: [fixed[axis]] if axis in fixed else values[axis] for axis in AXES}


def _chunk_counts(sizes: Sequence[int], stages: list[int]) -> list[int]:
    """Return the chunks of a rank that cut a model of some of these sizes evenly, and few ones. [layer]"""
    even = {
        chunks for size in sizes for pp in stages if pp and size % pp == 0 for chunks in divisors(size // pp)
    }
    return sorted(even | set(range(1, min(MANY_CHUNKS, sizes[0]) + 1)))


class _Rows:
    """Columns under construction, and the cells that fell out."""

    def __init__(self, cells: int) -> None:
        self.columns: dict[str, Column] = {}
        self.weight = float(cells)
        self.removed: Counter[str] = Counter()

    def cross(self, axis: str, values: list[int]) -> None:
        """Repeat every row for each value of a further axis."""
        size = len(next(iter(self.columns.values()))) if self.columns else 1
        self.columns = {name: np.repeat(column, len(values)) for name, column in self.columns.items()}
        self.columns[axis] = np.tile(np.array(values, dtype=float), size)
        self.weight /= len(values)

    def cross_where(
        self, axis: str, values: list[int], rules: Sequence[tuple[str, Callable[[Column], NDArray[np.bool_]]]]
    ) -> None:
        """Repeat every row for those values of a further axis, given as a row, that keep the rules."""
        column = np.array(values, dtype=float)
        self.weight /= len(values)
        left = np.ones((len(next(iter(self.columns.values()))), len(values)), dtype=bool)
        for rule, keeps in rules:
            kept = left & keeps(column)
            self._count(rule, int(np.count_nonzero(left)) - int(np.count_nonzero(kept)))
            left = kept
        rows, places = np.nonzero(left)
        self.columns = {name: known[rows] for name, known in self.columns.items()}
        self.columns[axis] = column[places]

    def keep(self, rule: str, mask: NDArray[np.bool_]) -> None:
        """Drop the rows outside ``mask``, counting the grid cells that each stands for."""
        dropped = int(np.count_nonzero(~mask))
        self._count(rule, dropped)
        if dropped:
            self.columns = {name: column[mask] for name, column in self.columns.items()}

    def keep_all(self, masks: Mapping[str, Mask]) -> None:
        """Drop the rows outside any of these masks, each counted for the first."""
        left = np.ones(len(self.columns["tp"]), dtype=bool)
        for rule, mask in masks.items():
            kept = left & mask
            self._count(rule, int(np.count_nonzero(left)) - int(np.count_nonzero(kept)))
            left = kept
        if not left.all():
            self.columns = {name: column[left] for name, column in self.columns.items()}

    def _count(self, rule: str, dropped: int) -> None:
        if dropped:
            self.removed[rule] += round(dropped * self.weight)


def make_space(
    job: Job,
    fixed: Mapping[str, int],
    split: tuple[int, ...] | None = None,
    bare_ends: bool = False,
    apart: bool = False,
) -> Space:
    """Return every structurally legal combination of degrees.

    ``fixed``: degrees that the user has set, by name; ``split``: layers of each virtual stage, where the user
    has set them; ``bare_ends``: whether the first stage may hold the embedding alone, and the last one the
    loss; ``apart``: whether prediction layers stand before a loss alone, where the user has said so.
    """
    values = axis_values(job, fixed, bare_ends, split)
    cells = int(np.prod([float(len(values[axis])) for axis in AXES]))
    rows = _Rows(cells)
    for axis in ("tp", "cp", "pp"):
        rows.cross(axis, values[axis])
    columns = rows.columns
    rows.keep("degrees-make-gpus", np.mod(job.gpus, columns["tp"] * columns["cp"] * columns["pp"]) == 0)
    columns = rows.columns
    columns["dp"] = job.gpus / (columns["tp"] * columns["cp"] * columns["pp"])
    if "dp" in fixed:
        rows.keep("fixed-by-user", rows.columns["dp"] == fixed["dp"])
    rows.cross("micro_batch", values["micro_batch"])
    columns = rows.columns
    passes = job.workload.global_batch / (columns["micro_batch"] * columns["dp"])
    rows.keep("batch-divides", (passes >= 1) & (np.mod(passes, 1) == 0))
    rows.cross("vpp", values["vpp"])
    columns = rows.columns
    most = most_stages(job.model, bare_ends, split)
    rows.keep("stages-have-layers", columns["pp"] * columns["vpp"] <= most)
    rows.keep("chunks-need-stages", (rows.columns["pp"] > 1) | (rows.columns["vpp"] == 1))
    if split is not None:
        rows.keep("fixed-by-user", rows.columns["pp"] * rows.columns["vpp"] == len(split))
    elif "vpp" not in fixed:
        rows.keep("chunks-are-alike", _alike(rows.columns, job.model.num_layers))
    _cross_experts(rows, job, values)
    made = replace(_plan(rows.columns, job, split), prediction_apart=apart)
    rules = structural_rules(made, job.model, job.workload, job.gpus, bare_ends)
    rows.keep_all({rule.name: rule.holds for rule in rules})
    left = replace(_plan(rows.columns, job, split), prediction_apart=apart)
    nearly = made if len(made.tp) and not len(left.tp) else None  # type: ignore[arg-type]
    return Space(left, cells, rows.removed, nearly)


def _alike(columns: Mapping[str, Column], layers: int) -> NDArray[np.bool_]:
    """Whether chunks have equal layers, but for one less in a few: unlike chunks stall each other."""
    chunks = columns["pp"] * columns["vpp"]
    alike: NDArray[np.bool_] = (columns["vpp"] == 1) | (np.mod(-layers, chunks) <= SHORT_CHUNKS)
    return alike


def _cross_experts(rows: _Rows, job: Job, values: Mapping[str, list[int]]) -> None:
    ranks = job.gpus / rows.columns["pp"][:, np.newaxis]
    rows.cross_where("ep", values["ep"], [("expert-mesh-divides", lambda ep: np.mod(ranks, ep) == 0)])
    columns = rows.columns
    inside = job.gpus / columns["pp"][:, np.newaxis] / columns["ep"][:, np.newaxis]
    tp = columns["tp"][:, np.newaxis]
    rows.cross_where(
        "etp",
        values["etp"],
        [
            ("expert-mesh-divides", lambda etp: np.mod(inside, etp) == 0),
            ("experts-within-tensor", lambda etp: np.mod(tp, etp) == 0),
        ],
    )


def _plan(columns: Mapping[str, Column], job: Job, split: tuple[int, ...] | None) -> Plan:
    passes = job.workload.global_batch / (columns["micro_batch"] * columns["dp"])
    whole: dict[str, Any] = {name: columns[name] for name in (*AXES, "dp")}
    return Plan(num_microbatches=passes, zero_shards=np.ones_like(passes), stage_layers=split, **whole)
