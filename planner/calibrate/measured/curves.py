"""A curve file of a measured device: the kernel fits, on the rows of its raw profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from planner.calibrate.kernels import attention as kernel_attention
from planner.calibrate.kernels import experts as kernel_experts
from planner.calibrate.kernels import gemm as kernel_gemm
from planner.calibrate.kernels.collectives import operation_entry
from planner.calibrate.kernels.entries import Entry, accuracy, microseconds, plain, size_range
from planner.calibrate.kernels.files import UNFUSED, datasheet_entry
from planner.calibrate.kernels.fit import Columns, Fit, Free, fit
from planner.calibrate.kernels.residuals import Corrected, residual_fields, with_residuals
from planner.calibrate.kernels.tables import Datasheet, Row, columns
from planner.calibrate.measured.rows import Raw, as_table, of_bench
from planner.dataclasses import dataclass, replace
from planner.errors import InputError, Problem
from planner.formulas.attention import BACKWARD_FLOPS, CHOSEN, attention_backward_seconds, visible_keys
from planner.formulas.collective_curves import BUS_FACTOR
from planner.formulas.elementwise import MEASURED
from planner.formulas.roofline import memory_bound_seconds
from planner.formulas.size_grid import ATTENTION_AXES
from planner.inputs.curves import gemm_curve
from planner.numeric import Column

FEWEST: Final = 6
"""Points below which a curve is not fitted. [-]"""

NOT_HELD: Final = kernel_gemm.Lasting(1.0, {"sustained_standing": "not measured: the burst rate"})
"""What lasts where no product was held: a processor has no power limiter that sets in late."""

BACKWARD: Final = (
    Free("backward_efficiency", 0.5, 0.01, 1.0),
    Free("backward_half_keys", 100.0, 0.0, 5000.0),
)
"""The backward pass takes the launch time of the forward pass, as the formula does."""
MEMORY: Final = (Free("efficiency", 0.8, 0.01, 1.0), Free("launch", 3e-6, 0.0, 1e-3))


@dataclass(frozen=True)
class FittedCurves:
    """The curve file, and what a reader must know of it."""

    content: Mapping[str, Any]
    """As the files in ``hardware_profiles/curves`` are."""
    notes: tuple[str, ...]
    """Curves that could not be measured, and what stands in their place."""


def gemm_entries(rows: Sequence[Raw], sheet: Datasheet) -> dict[str, Entry]:
    """Fit the products of every data type with enough points; the first one is 16 bit."""
    entries: dict[str, Entry] = {}
    base: Mapping[str, float] | None = None
    for dtype in ("bf16", "fp16", "fp8"):
        table = as_table(of_bench(rows, "gemm", dtype, "product"))
        kind = "fp8" if dtype == "fp8" else "bf16"
        if len(table) < FEWEST or not sheet.peaks[kind] or (dtype == "fp8" and base is None):
            continue
        shape = columns(table, ("m", "n", "k"))
        corrected = corrected_law(shape, kind, sheet, base if dtype == "fp8" else None)
        fitted = corrected.fitted
        base = fitted.values if base is None else base
        held = as_table(of_bench(rows, "sustained", dtype), source="held for a second")
        lasting = kernel_gemm.lasting_of(held, kind, sheet, fitted) if held else NOT_HELD
        entry = kernel_gemm.gemm_entry(fitted, kind, sheet, shape, lasting)
        entries[dtype] = entry | _measured(fitted) | residual_fields(corrected)
    if "bf16" not in entries and "fp16" in entries:
        entries["bf16"] = entries["fp16"] | {"note": "that of fp16: the device has no bf16"}
    return entries


def corrected_law(shape: Columns, kind: str, sheet: Datasheet, base: Mapping[str, float] | None) -> Corrected:
    """Fit the law of products and what it leaves; a cast's launch is told apart from the product's."""
    law, free = kernel_gemm.fit_law(shape, kind, sheet, base)
    corrected = with_residuals(law, kernel_gemm.model_of(kind, sheet), free, shape)
    if base is None:
        return corrected
    values = kernel_gemm.split_launch(corrected.fitted.values, base["launch"])
    return replace(corrected, fitted=replace(corrected.fitted, values=values))


def _measured(fitted: Fit) -> Entry:
    return accuracy(fitted, "torch") | {"standing": "measured"}


def backward_model(sheet: Datasheet, forward: Mapping[str, float]) -> Any:
    """Formula of the backward pass from constants to seconds, with what the forward fit found."""

    def model(values: Mapping[str, float], shape: Columns) -> Column:
        curve = replace(
            kernel_attention.curve_of(forward, "bf16", sheet),
            backward_rate=values["backward_efficiency"] * sheet.peaks["bf16"],
            backward_half_keys=values["backward_half_keys"],
        )
        seq = shape["seq"]
        sizes = (shape["batch"], shape["heads"], seq, visible_keys(seq, seq, seq), shape["head_dim"])
        busy = attention_backward_seconds(*sizes, curve) - curve.launch
        return np.asarray(curve.launch + kernel_gemm.with_droop(busy, forward["droop"]), dtype=np.float64)

    return model


def attention_entry(forward: list[Row], backward: list[Row], sheet: Datasheet, gemm: Entry) -> Entry | None:
    """Fit one head size, both passes; None where there are too few points."""
    if min(len(forward), len(backward)) < FEWEST:
        return None
    droop = float(str(gemm["droop"]))
    there, back = (with_places(columns(table, kernel_attention.NAMES)) for table in (forward, backward))
    fitted = kernel_attention.fit_attention(forward, "bf16", sheet, droop)
    ahead = with_residuals(
        fitted,
        kernel_attention.model_of("bf16", sheet),
        kernel_attention.free_constants(there),
        there,
        ATTENTION_AXES,
    )
    flops = 2 * BACKWARD_FLOPS * back["batch"] * back["heads"] * back["seq"] ** 2 * back["head_dim"]
    model = backward_model(sheet, fitted.values)
    law = fit(model, BACKWARD, {}, back, np.asarray(flops))
    again = with_residuals(law, model, BACKWARD, back, ATTENTION_AXES)
    values = fitted.values
    return {
        "efficiency": plain(values["efficiency"]),
        "sustained_ratio": gemm["sustained_ratio"],
        "sustained_standing": "that of 16-bit products",
        "half_keys": plain(values["half_keys"]),
        "shared_half_keys": plain(values["shared_half_keys"]),
        "half_queries_per_multiprocessor": plain(values["half_queries_per_multiprocessor"]),
        "launch": microseconds(values["launch"]),
        "range": {name: size_range(there[name]) for name in ("seq", "batch", "heads")},
        "kernel": CHOSEN,
        "backward_efficiency": plain(law.values["backward_efficiency"]),
        "backward_half_keys": plain(law.values["backward_half_keys"]),
        "backward_standing": "measured",
        "backward": _measured(again.fitted),
        **_measured(ahead.fitted),
        **residual_fields(ahead, ATTENTION_AXES),
        **residual_fields(again, ATTENTION_AXES, "backward_"),
    }


def with_places(shape: Columns) -> Columns:
    """Return shapes of attention with the sizes that its residuals depend on."""
    rows, shared = shape["batch"] * shape["heads"], shape["heads"] / shape["kv_heads"]
    return {**shape, "rows": rows, "shared": shared}


def attention_entries(rows: Sequence[Raw], sheet: Datasheet, gemm: Entry) -> dict[str, Entry]:
    """Fit the causal attention that torch chooses, for every head size with enough points."""
    passes = [
        as_table(of_bench(rows, "attention", variant=f"chosen-causal-{direction}"))
        for direction in ("forward", "backward")
    ]
    entries: dict[str, Entry] = {}
    for size in sorted({row["head_dim"] for row in passes[0]}, key=int):
        both = [[row for row in table if row["head_dim"] == size] for table in passes]
        entry = attention_entry(both[0], both[1], sheet, gemm)
        if entry is not None:
            entries[size] = entry
    return entries


def experts_entries(rows: Sequence[Raw], sheet: Datasheet, gemm: Entry) -> dict[str, Entry]:
    """Fit the layer of routed experts; on one rank, every token's result is written once beside its rows."""
    table = as_table(of_bench(rows, "experts"), etp="1", ep="1")
    if len(table) < FEWEST:
        return {}
    dense = gemm_curve(gemm, sheet.peaks["bf16"], sheet.bandwidth, sheet.multiprocessors, sustained=False)
    fitted = kernel_experts.fit_experts(table, dense, sheet, {"token_bytes": dense.output_bytes})
    shape = columns(table, kernel_experts.NAMES)
    return {"bf16": kernel_experts.experts_entry(fitted, shape, "torch") | _measured(fitted)}


def memory_entry(rows: Sequence[Raw], sheet: Datasheet) -> Entry | None:
    """Fit bandwidth and launch of the memory-bound operators, all together and each by itself.

    All together they reach a rate of the bytes that they move; each by itself, of those that it is priced at.
    """
    own = of_bench(rows, "elementwise")
    if len(own) < FEWEST:
        return None
    operators = {
        variant: memory_fields(fit_memory([priced(row) for row in own if row["variant"] == variant], sheet))
        for variant in sorted({row["variant"] for row in own})
    }
    return memory_fields(fit_memory(own, sheet)) | {"operators": operators}


def priced(row: Raw) -> Raw:
    """Return a memory-bound operator with the bytes that prices count for it, where they count its elements.

    Examples
    --------
    >>> priced({"variant": "rotary", "shape": {"rows": 2, "width": 100}, "bytes": 4800.0})["bytes"]
    4000.0
    """
    if row["variant"] not in MEASURED:
        return row
    elements = row["shape"]["rows"] * row["shape"]["width"]
    return {**row, "bytes": MEASURED[row["variant"]].forward * elements}


def fit_memory(rows: Sequence[Raw], sheet: Datasheet) -> Fit:
    """Fit the share of the bandwidth and the launch time of operators, by the bytes that they move."""
    shape = {
        "bytes": np.array([row["bytes"] for row in rows]),
        "seconds": np.array([row["seconds"] for row in rows]),
    }

    def model(values: Mapping[str, float], sizes: Columns) -> Column:
        seconds = memory_bound_seconds(
            sizes["bytes"], sheet.bandwidth, values["efficiency"], values["launch"]
        )
        return np.asarray(seconds, dtype=np.float64)

    return fit(model, MEMORY, {}, shape, shape["bytes"])


def memory_fields(fitted: Fit) -> Entry:
    """Fields of memory-bound operators."""
    values = fitted.values
    fields = {"efficiency": plain(values["efficiency"]), "launch": microseconds(values["launch"])}
    return fields | _measured(fitted)


def collectives_entries(rows: Sequence[Raw], backend: str) -> dict[str, dict[str, Entry]]:
    """Fit every collective at every number of ranks of one tier that has enough sizes."""
    entries: dict[str, Entry] = {}
    for operation in BUS_FACTOR:
        table = as_table(of_bench(rows, "collectives", variant=operation), source=backend)
        sizes = Counter(row["ranks"] for row in table)
        enough = [row for row in table if sizes[row["ranks"]] >= FEWEST]
        if enough:
            entries[operation] = operation_entry(enough, operation) | {"standing": "measured"}
    return {backend: entries} if entries else {}


def curve_file(
    name: str,
    rows: Sequence[Raw],
    sheet: Datasheet,
    provenance: Mapping[str, str],
    standing_in: Mapping[str, Any],
) -> FittedCurves:
    """Return the curve file of a measured device.

    ``rows``: timed rows of the raw table; ``sheet``: what efficiencies are shares of; ``standing_in``: a
    curve file whose entries are taken where nothing was measured.

    Raises `InputError` if not even matrix products have enough points.
    """
    gemm = gemm_entries(rows, sheet)
    if "bf16" not in gemm:
        found = f"{len(of_bench(rows, 'gemm'))} points of matrix products"
        raise InputError(Problem("the raw table", found, f"at least {FEWEST}; give it more --minutes"))
    measured: dict[str, Any] = {
        "attention": {"bf16": attention_entries(rows, sheet, gemm["bf16"])},
        "experts": experts_entries(rows, sheet, gemm["bf16"]),
        "memory_bound": memory_entry(rows, sheet),
    }
    lent = [
        part for part in measured if not (measured[part]["bf16"] if part == "attention" else measured[part])
    ]
    found_notes = [
        f"no curve of {part} could be measured: that of {standing_in['accelerator']}" for part in lent
    ]
    if sheet.peaks["nvfp4"] and "nvfp4" in standing_in["gemm"]:
        gemm["nvfp4"] = {**standing_in["gemm"]["nvfp4"], "lent_by": standing_in["accelerator"]}
        found_notes.append(f"products of nvfp4 with their cast are those of {standing_in['accelerator']}")
    parts = measured | {part: _lent(standing_in[part], standing_in) for part in lent}
    backend = "gloo" if provenance.get("cuda") in ("", None) else "nccl"
    content = {
        "accelerator": name,
        "source": source_text(provenance),
        "provenance": dict(provenance),
        "datasheet": datasheet_entry(sheet),
        "gemm": gemm,
        "attention": parts["attention"],
        "unfused_attention": UNFUSED,
        "experts": parts["experts"],
        "collectives": collectives_entries(rows, backend),
        "memory_bound": parts["memory_bound"],
    }
    return FittedCurves(content, tuple(found_notes))


def _lent(part: Any, lender: Mapping[str, Any]) -> Any:
    """Return a part of another's curves, which says so where it has a place for it."""
    note = {"lent_by": lender["accelerator"]}
    if "bf16" in part:
        return {"bf16": part["bf16"]}
    return {**part, **note}


def source_text(provenance: Mapping[str, str]) -> str:
    """Return in one line where measured numbers are from.

    Examples
    --------
    >>> source_text({"date": "2026-11-21", "device": "NVIDIA H100 80GB HBM3", "torch": "2.13.0", "cuda": ""})
    'planner profile, 2026-11-21, NVIDIA H100 80GB HBM3, torch 2.13.0'
    """
    words = [provenance.get("date", ""), provenance.get("device", "")]
    words += [
        f"{name} {provenance[name]}" for name in ("driver", "cuda", "nccl", "torch") if provenance.get(name)
    ]
    return ", ".join(["planner profile", *(word for word in words if word)])
