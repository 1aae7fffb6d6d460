"""Rows of sweeps made by hand, and searches that end badly, for tests."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

from planner.sweep.row import FITS, NOTHING_FITS, Row, SweepOutcome

PLAN = {
    "tp": 1, "pp": 1, "vpp": 1, "cp": 1, "ep": 1, "etp": 1, "dp": 8, "zero": 1, "zero_shards": 8,
    "micro_batch": 1, "recompute": "none", "sequence_parallel": False, "cp_method": "ring",
    "schedule": "1f1b", "offload": "none",
}  # fmt: skip


def fit(gpus: int, step: float, **figures: Any) -> Row:
    """Return a row that fits; what is no figure of the plan is an axis of the grid."""
    best: dict[str, Any] = PLAN | {
        "model": "m", "gpus": gpus, "seq_len": 1000, "global_batch": 100, "method": "full",
        "step_time_s": step, "mfu": 0.5, "peak_gib": 50.0, "cost_usd_per_step": None,
        "energy_j_per_step": None, "days_to_train": None, "cost_usd_to_train": None,
    }  # fmt: skip
    case = {name: figures.pop(name) for name in tuple(figures) if name not in best}
    case = {"models": "m", "hardware": "h", "gpus": str(gpus)} | case
    return Row(f"{case}{figures}", case, SweepOutcome(FITS, best=best | figures))


def no_fit(gpus: int, nearest: dict[str, Any] | None = None, **case: str) -> Row:
    """Return a row in which nothing fits."""
    options = {"models": "m", "hardware": "h", "gpus": str(gpus)} | case
    return Row(f"{options}", options, SweepOutcome(NOTHING_FITS, nearest=nearest))


def badly(request: Any) -> SweepOutcome:
    """Search as the request says: return, raise, or take the process along."""
    if request == "raise":
        raise LookupError("no such thing")
    if request == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if request == "slow":
        time.sleep(0.3)
    return SweepOutcome(FITS, best={"said": request, "threads": os.environ["OMP_NUM_THREADS"]})
