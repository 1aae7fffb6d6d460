"""Which measured runs are recipes: jobs that their authors tuned, and of sweeps the best of each cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from planner.calibrate.constants import WithConstants, shipped_values
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepared
from planner.calibrate.runs.table import Run, read_runs
from tests.helpers import ROOT

EXTRACT: Final = ROOT / "tests" / "measured" / "runs"
OWN: Final = ROOT / "tests" / "published_jobs" / "runs"

TABLES: Final = {
    "Megatron-Bridge and NeMo": (EXTRACT / "bridge.csv", OWN / "bridge_later.csv"),
    "Megatron-Bridge ablations": (EXTRACT / "bridge_ablations.csv",),
    "DGX Cloud benchmarks": (OWN / "dgxc.csv",),
    "MLPerf": (EXTRACT / "mlperf.csv",),
    "torchtitan": (EXTRACT / "torchtitan.csv",),
    "NeMo Automodel": (OWN / "automodel.csv",),
    "llm-foundry": (EXTRACT / "llm_foundry.csv",),
    "nanotron, best of each cell": (EXTRACT / "ultrascale.csv",),
}
"""Files by what is said of their source."""

SWEEPS: Final = ("nanotron, best of each cell",)
"""Tables of which the fastest run of each model, number of accelerators, batch and length counts."""


def recipes() -> Iterator[tuple[str, list[PricedRun], list[Skip]]]:
    """Yield each table's recipes, priced as `planner validate` prices them, and rows that have no price."""
    catalogue, constants = shipped_catalogue(), WithConstants(shipped_values())
    for table, paths in TABLES.items():
        rows = [row for path in paths for row in _rows(path)]
        skipped: list[Skip] = []
        ready = prepared(_best(rows) if table in SWEEPS else rows, catalogue, skipped)
        yield table, constants(ready), skipped


def _rows(path: Path) -> list[Run]:
    with path.open(encoding="utf-8", newline="") as lines:
        return [row for row in read_runs(lines, path.name).rows if isinstance(row, Run) and not row.mark]


def _best(rows: list[Run]) -> list[Run]:
    """Return the fastest run of each job."""
    best: dict[tuple[object, ...], Run] = {}
    for row in rows:
        key = (row.model, row.num_gpus, row.global_batch, row.seq_len)
        if row.step_time_s and (key not in best or row.step_time_s < (best[key].step_time_s or 0.0)):
            best[key] = row
    return list(best.values())
