"""A calibrated site as a cluster profile and as ``planner calibrate`` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from planner.calibrate.fit import Column
from planner.calibrate.kernels.files import render
from planner.calibrate.scores import Json, error_scores
from planner.calibrate.sites.doubts import doubts
from planner.calibrate.sites.fit import SiteFit
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import PARTS, hardware_folder, load_hardware
from planner.inputs.yaml_file import read_yaml
from planner.units import GIB

SCHEMA: Final = "planner/calibrate/1"
NAMED: Final = 8
"""Rows that a source names one by one. [-]"""


def base_file(text: str, profile: HardwareProfile) -> Path:
    """Return the file of a cluster, given by name or path."""
    shipped = hardware_folder() / f"{profile.name}.yaml"
    return shipped if shipped.is_file() and load_hardware(str(shipped)) == profile else Path(text)


def cluster_yaml(base: Path, name: str, result: SiteFit, table: str) -> str:
    """Return the cluster in a file with the fitted shares, parts by name as they stand there.

    ``base``: file of the cluster that the runs were made on; ``table``: what to call the runs.
    """
    raw = read_yaml(base)
    pool: Mapping[str, Any] = _with_paths(raw["pools"][0], base.parent)
    source = source_text(result, table)
    shares = {
        factor.field: {"value": f"{factor.value:g}", "source": source, "standing": "fitted"}
        for factor in result.factors
    }
    content = {key: value for key, value in raw.items() if key not in ("aliases", "note")}
    note = note_text(result)
    told = {"calibration": calibration_entry(result, source)} if result.factors else {}
    content |= {"name": name, "pools": [dict(pool) | shares | told]} | ({"note": note} if note else {})
    return render(content)


def calibration_entry(result: SiteFit, source: str) -> dict[str, Any]:
    """Return the runs behind the shares as `planner.inputs.hardware.Calibration` reads them."""
    held = f"{source}; each priced with shares that were fitted without it"
    band = {} if result.band is None else {"band": _share_entry(result.band, held)}
    return {
        "runs": len(result.used),
        "runtimes": sorted({run.runtime.name for run in result.used}),
        **band,
        "missed": _share_entry(float(np.max(np.abs(np.expm1(result.after)))), source),
        "extrapolated": _share_entry(result.extrapolated, source),
    }


def _share_entry(value: float, source: str) -> dict[str, str]:
    return {"value": f"{value:.4g}", "source": source, "standing": "fitted"}


def _with_paths(value: Any, folder: Path, key: str = "") -> Any:
    """Return a part whose files beside the profile are named in full, since the new file lies elsewhere."""
    if isinstance(value, dict):
        return {name: _with_paths(inner, folder, name) for name, inner in value.items()}
    files = (*PARTS, "base", "scaleup", "package", "curves")
    if key in files and isinstance(value, str) and value.endswith((".yaml", ".yml")):
        beside = folder / value
        return str(beside.resolve()) if beside.is_file() else value
    return value


def source_text(result: SiteFit, table: str) -> str:
    """Return where the shares are from: the table and its rows."""
    ids = [run.run.id for run in result.used]
    named = ", ".join(ids[:NAMED]) + (f" and {len(ids) - NAMED} more" if len(ids) > NAMED else "")
    return f"{table}: {named}"


def note_text(result: SiteFit) -> str:
    """Return the errors of the fit, and memory that a cluster's profile has no field for."""
    text = f"error of step time {_share(result.before)} before, {_share(result.after)} fitted"
    if result.held_out is not None:
        text += f", {_share(result.held_out)} on rows held out of the fit"
    if result.framework is not None:
        text += f"; memory outside the allocator {result.framework.value_gib:g} GiB"
    return "; ".join((text, *doubts(result)))


def _share(errors: Column) -> str:
    return f"{float(np.mean(np.abs(np.expm1(errors)))):.1%}"


def as_json(result: SiteFit, profile: HardwareProfile, table: str, out: str) -> Json:
    """Return what was fitted as ``planner/calibrate/1``."""
    held = result.held_out
    return {
        "schema": SCHEMA,
        "hardware": profile.name,
        "runs": table,
        "out": out,
        "rows": result.runs.rows,
        "used": len(result.before),
        "skipped": [{"id": skip.id, "reason": skip.reason} for skip in result.runs.skipped],
        "factors": [
            {
                "name": factor.name,
                "field": factor.field,
                "meaning": factor.meaning,
                "start": factor.start,
                "value": factor.value,
                "standard_error": factor.standard_error,
            }
            for factor in result.factors
        ],
        "not_fitted": [{"name": name, "reason": reason} for name, reason in result.left_out.items()],
        "step_time": {
            "before": error_scores(np.expm1(result.before)),
            "fitted": error_scores(np.expm1(result.after)),
            "held_out": None if held is None else error_scores(np.expm1(held)),
        },
        "error_band": result.band,
        "warnings": doubts(result),
        "framework_memory": _framework(result),
        "per_row": _per_row(result),
    }


def _framework(result: SiteFit) -> Json | None:
    found = result.framework
    if found is None:
        return None
    return {
        "n": found.runs,
        "before_gib": found.before_gib,
        "fitted_gib": found.value_gib,
        "mape_before": found.error_before,
        "mape_fitted": found.error_after,
        "set": f"framework_bytes={found.value_gib * GIB:.0f}",
    }


def _per_row(result: SiteFit) -> list[Json]:
    held = [None] * len(result.before) if result.held_out is None else list(result.held_out)
    rows: list[Json] = []
    for run, before, after, outside in zip(result.used, result.before, result.after, held, strict=True):
        measured = run.measured.seconds or 0.0
        rows.append(
            {
                "id": run.run.id,
                "measured_s": measured,
                "before_s": measured * float(np.exp(before)),
                "fitted_s": measured * float(np.exp(after)),
                "held_out_s": None if outside is None else measured * float(np.exp(outside)),
            }
        )
    return rows
