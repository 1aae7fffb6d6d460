"""Kernels that a profile has not seen: measured, and predicted by it and by the curves that ship."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from planner.calibrate.kernels.gemm import burst_seconds, with_droop
from planner.calibrate.measured.cluster import known_accelerator
from planner.calibrate.measured.curves import priced
from planner.formulas.attention import attention_backward_seconds, attention_forward_seconds, visible_keys
from planner.formulas.kernels import Kernels
from planner.formulas.roofline import memory_bound_seconds
from planner.formulas.size_grid import corrected
from planner.inputs.hardware import Accelerator
from planner.inputs.kernels import load_kernels
from planner.inputs.load_hardware import hardware_folder, load_hardware
from planner.profile.benches import benches
from planner.profile.benches.attention import point as attention_point
from planner.profile.benches.elementwise import operators_of
from planner.profile.benches.family import Point, scattered
from planner.profile.benches.gemm import point as product_point
from planner.profile.collectives import row_of
from planner.profile.device import Device, open_device
from planner.profile.health import uuid_of
from planner.profile.nvml import Driver, open_driver
from planner.profile.session import Session
from planner.profile.store import RawTable
from planner.units import parse

Row = dict[str, Any]


def points(device: Device) -> list[Point]:
    """Return products, attention and memory-bound operators between the sizes of the default grid."""
    if device.is_cpu:
        shapes = scattered(6, 32, m=(96, 512), n=(96, 512), k=(96, 512))
        seqs = scattered(2, 32, seq=(96, 256))
        sizes, layer = scattered(1, 32, rows=(64, 256), width=(128, 256)), (1, 4, 4, 64)
    else:
        shapes = scattered(60, 64, m=(512, 16384), n=(512, 16384), k=(512, 16384))
        seqs = scattered(20, 64, seq=(1024, 16384))
        sizes, layer = scattered(8, 64, rows=(1024, 32768), width=(1024, 8192)), (2, 24, 8, 128)
    batch, heads, kv_heads, head_dim = layer
    kinds = ["bf16"] + ["fp8"] * (device.capability >= 8.9)
    found = [product_point("gemm", dtype, shape) for dtype in kinds for shape in shapes]
    for shape in seqs:
        whole = {"batch": batch, "heads": heads, "kv_heads": kv_heads, **shape, "head_dim": head_dim}
        found += [attention_point(f"chosen-causal-{way}", whole) for way in ("forward", "backward")]
    return found + operators_of(sizes, device)


@dataclass(frozen=True)
class Predictor:
    """Curves of one accelerator at the clocks of a short benchmark, with the loss of clock of long calls."""

    kernels: Kernels
    content: Mapping[str, Any]

    def seconds(self, one: Point) -> float | None:
        """Predict a point; None where there is no curve for it."""
        if one.bench == "elementwise":
            return self._streamed(one)
        droop = parse(self.content["gemm"]["bf16"]["droop"], "-")
        return self._product(one, droop) if one.bench == "gemm" else self._attended(one, droop)

    def _product(self, one: Point, droop: float) -> float | None:
        curve = self.kernels.gemm.get(one.dtype)
        if curve is None:
            return None
        sizes = {name: np.array([float(one.shape[name])]) for name in "mnk"}
        return float(burst_seconds(sizes, curve, droop)[0])

    def _attended(self, one: Point, droop: float) -> float:
        shape = {name: float(size) for name, size in one.shape.items()}
        curve, seq = self.kernels.attention_for(int(shape["head_dim"])), shape["seq"]
        ahead = one.variant.endswith("forward")
        passed = attention_forward_seconds if ahead else attention_backward_seconds
        law = replace(curve, residuals=None, backward_residuals=None)
        size = (shape["batch"], shape["heads"], seq, visible_keys(seq, seq, seq), shape["head_dim"])
        busy = float(passed(*size, law)) - law.launch
        grid = curve.residuals if ahead else curve.backward_residuals
        places = (seq, shape["batch"] * shape["heads"], shape["heads"] / shape["kv_heads"])
        return float(corrected(law.launch + with_droop(busy, droop), grid, *places))

    def _streamed(self, one: Point) -> float:
        whole = self.content["memory_bound"]
        own = whole.get("operators", {}).get(one.variant)
        moved, entry = (priced(row_of(one))["bytes"], own) if own else (one.nbytes, whole)
        bandwidth = parse(self.content["datasheet"]["bandwidth"], "byte/s")
        share, launch = parse(entry["efficiency"], "-"), parse(entry["launch"], "s")
        return float(memory_bound_seconds(moved, bandwidth, share, launch))


def predictor(accelerator: Accelerator, curves: Path) -> Predictor:
    """Return what the curves in a file predict."""
    return Predictor(load_kernels(accelerator, sustained=False), yaml.safe_load(curves.read_text("utf-8")))


def shipped(product: str) -> Predictor | None:
    """Return what the curves that ship for a product predict; None where none do."""
    known = known_accelerator(product)
    path = hardware_folder("curves") / f"{known.name}.yaml" if known else None
    return predictor(known, path) if known and path and path.is_file() else None


def compared(device: Device, driver: Driver, profile: Path, out: Path, seconds: float) -> Iterator[Row]:
    """Measure what the profile has not seen, and yield a row for each point as soon as it is known."""
    accelerator = load_hardware(str(profile)).pool.accelerator
    own, usual = predictor(accelerator, Path(accelerator.curves)), shipped(device.name)
    session = Session(device, driver, RawTable(out, {}, fresh=True), seconds)
    for one in points(device):
        if session.spent > 1:
            return
        row = session.keep(one, benches()[one.bench])
        if "seconds" in row:
            yield row | {"predicted": own.seconds(one), "shipped": usual.seconds(one) if usual else None}


def family(row: Row) -> str:
    """Return what a row counts to: products by data type, attention by pass, operators together."""
    if row["bench"] == "gemm":
        return f"products {row['dtype']}"
    if row["bench"] == "attention":
        return f"attention {row['variant'].rsplit('-', 1)[-1]}"
    return "memory-bound operators"


def mean_errors(rows: Sequence[Row]) -> list[Row]:
    """Return for each family the mean and worst error, and by how much the curves that ship are off."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        if row["predicted"]:
            groups.setdefault(family(row), []).append(row)
    return [{"what": name, **_errors(members)} for name, members in groups.items()]


def _errors(rows: Sequence[Row]) -> Row:
    own = [abs(row["predicted"] / row["seconds"] - 1) for row in rows]
    usual = [row["shipped"] / row["seconds"] - 1 for row in rows if row["shipped"]]
    return {
        "points": len(rows),
        "mean": statistics.mean(own),
        "worst": max(own),
        "shipped_mean": statistics.mean(map(abs, usual)) if usual else None,
        "shipped_bias": statistics.mean(usual) if usual else None,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, keep every row, and print the errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.unseen", description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--profile", type=Path, required=True, help="what planner profile has written")
    parser.add_argument("--out", type=Path, required=True, help="rows, one line of JSON each")
    parser.add_argument("--minutes", type=float, default=2.0)
    options = parser.parse_args(arguments)
    device = open_device(options.device)
    driver, raw = open_driver(uuid_of(device)), options.out.with_suffix(".raw.jsonl")
    rows = []
    with options.out.open("w", encoding="utf-8") as stream:
        for row in compared(device, driver, options.profile, raw, 60 * options.minutes):
            rows.append(row)
            stream.write(json.dumps(row) + "\n")
            stream.flush()
    raw.unlink()
    for line in mean_errors(rows):
        sys.stdout.write(f"{line['what']}: {line['mean']:.1%} mean, {line['worst']:.1%} worst\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
