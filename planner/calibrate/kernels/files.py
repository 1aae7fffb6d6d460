"""The curve file of each accelerator, fitted to the measured kernel tables, and files written whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from planner.calibrate.kernels.attention import attention_entries
from planner.calibrate.kernels.collectives import collectives_entries
from planner.calibrate.kernels.entries import Entry
from planner.calibrate.kernels.experts import experts_entries
from planner.calibrate.kernels.gemm import gemm_entries
from planner.calibrate.kernels.heads import LENDERS, Sizes, lent_heads
from planner.calibrate.kernels.tables import DATASHEETS, SOURCE, Datasheet, Row, select
from planner.inputs.curves import gemm_curve
from planner.units import parse

Tables = Mapping[str, Sequence[Row]]

LICENCE = (
    "Measurements copyright NVIDIA Corporation and affiliates, Apache-2.0. The constants here were fitted "
    "to 70% of the shapes, milliseconds having been turned into microseconds; no measurement is reproduced."
)

UNFUSED: Entry = {
    "efficiency": "0.55",
    "misaligned_efficiency": "0.034",
    "score_bytes": "76 B",
    "fused_softmax_score_bytes": "31 B",
    "forward_share": "0.4",
    "memory_efficiency": "0.85",
    "standing": "literature",
    "source": "https://arxiv.org/abs/2205.05198",
    "note": "bytes by counting reads and writes; rate and bandwidth from training runs on A100; a misaligned "
    "head size falls from the matrix units to the fp32 units, 0.55 of 19.5 out of 312 TFLOP/s",
}

MEMORY_BOUND: Entry = {
    "efficiency": "0.85",
    "launch": "3 us",
    "standing": "literature",
    "source": "https://arxiv.org/abs/2205.14135",
    "note": "share of the memory bandwidth in norms, activations and optimizer steps of training runs",
}


def datasheet_entry(sheet: Datasheet) -> Entry:
    """What the efficiencies in the file are shares of."""
    peaks = {f"{dtype}_peak": f"{peak / 1e12:.6g} TFLOP/s" for dtype, peak in sheet.peaks.items() if peak}
    return {
        **peaks,
        "bandwidth": f"{sheet.bandwidth / 1e12:.4g} TB/s",
        "multiprocessors": f"{sheet.multiprocessors:.0f}",
        "source": sheet.source,
    }


def curve_file(name: str, sheet: Datasheet, tables: Tables) -> Entry:
    """Fit all curves of one accelerator."""
    own = {table: select(content, gpu=name) for table, content in tables.items()}
    gemm = gemm_entries(own["gemm"], own["gemm_sustained"], sheet)
    droop, lasting = (parse(gemm["bf16"][name], "-") for name in ("droop", "sustained_ratio"))
    dense = {
        dtype: gemm_curve(entry, sheet.peaks[dtype], sheet.bandwidth, sheet.multiprocessors, sustained=False)
        for dtype, entry in gemm.items()
    }
    return {
        "accelerator": name,
        "source": SOURCE,
        "licence": LICENCE,
        "datasheet": datasheet_entry(sheet),
        "gemm": gemm,
        "attention": attention_entries(own["attention"], sheet, droop, lasting),
        "attention_lent": {},
        "unfused_attention": UNFUSED,
        "experts": experts_entries(own["moe"], sheet, dense),
        "collectives": collectives_entries(own["collectives"]),
        "memory_bound": MEMORY_BOUND,
    }


def curve_files(tables: Tables) -> dict[str, Entry]:
    """Fit all curves of every accelerator, and lend head sizes where one has few."""
    files = {name: curve_file(name, sheet, tables) for name, sheet in DATASHEETS.items()}
    for name, lender in LENDERS.items():
        if name in files and lender in files:
            own, other = (_in_bf16(files[one]) for one in (name, lender))
            files[name]["attention_lent"] = {"bf16": lent_heads(own, other, lender)}
    return files


def _in_bf16(content: Entry) -> Sizes:
    attention = content["attention"]
    return attention.get("bf16", {}) if isinstance(attention, dict) else {}


def render(content: Entry) -> str:
    """Return the file as YAML text; the same content gives the same bytes."""
    return yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=None, allow_unicode=False)


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
