"""The curve file of each accelerator, fitted to the measured kernel tables, and files written whole."""

from __future__ import annotations

import yaml

from planner.calibrate.kernels.entries import Entry
from planner.calibrate.kernels.tables import Datasheet

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


def datasheet_entry(sheet: Datasheet) -> Entry:
    """What the efficiencies in the file are shares of."""
    peaks = {f"{dtype}_peak": f"{peak / 1e12:.6g} TFLOP/s" for dtype, peak in sheet.peaks.items() if peak}
    return {
        **peaks,
        "bandwidth": f"{sheet.bandwidth / 1e12:.4g} TB/s",
        "multiprocessors": f"{sheet.multiprocessors:.0f}",
        "source": sheet.source,
    }


def render(content: Entry) -> str:
    """Return the file as YAML text; the same content gives the same bytes."""
    return yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=None, allow_unicode=False)
