"""Fit every kernel curve to the measured tables and write one file for each accelerator.

Run as ``python -m planner.calibrate.kernels TABLES_DIR [--out hardware_profiles/curves]``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from planner.calibrate.kernel_gemm import gemm_entries
from planner.calibrate.kernel_tables import DATASHEETS, SOURCE, Datasheet, rows, select
from planner.units import show

Entry = dict[str, object]
Tables = Mapping[str, Sequence[Mapping[str, str]]]

TABLES = ("gemm", "gemm_sustained")

LICENCE = (
    "Measurements copyright NVIDIA Corporation and affiliates, Apache-2.0. The constants here were fitted "
    "to 70% of the shapes, milliseconds having been turned into microseconds; no measurement is reproduced."
)


def datasheet_entry(sheet: Datasheet) -> Entry:
    """What the efficiencies in the file are shares of."""
    peaks = {f"{dtype}_peak": show(peak, "FLOP/s") for dtype, peak in sheet.peaks.items() if peak}
    return {
        **peaks,
        "bandwidth": f"{sheet.bandwidth / 1e12:.4g} TB/s",
        "multiprocessors": f"{sheet.multiprocessors:.0f}",
        "source": sheet.source,
    }


def curve_file(name: str, sheet: Datasheet, tables: Tables) -> Entry:
    """Fit all curves of one accelerator."""
    own = {table: select(content, gpu=name) for table, content in tables.items()}
    return {
        "accelerator": name,
        "source": SOURCE,
        "licence": LICENCE,
        "datasheet": datasheet_entry(sheet),
        "gemm": gemm_entries(own["gemm"], own["gemm_sustained"], sheet),
    }


def render(content: Entry) -> str:
    """Return the file as YAML text; the same content gives the same bytes."""
    return yaml.safe_dump(content, sort_keys=False, width=110, default_flow_style=None, allow_unicode=False)


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, write, and tell the files."""
    parser = argparse.ArgumentParser(prog="python -m planner.calibrate.kernels", description=__doc__)
    parser.add_argument("tables", type=Path, help="folder with gemm.csv, attention.csv and the others")
    parser.add_argument("--out", type=Path, default=Path("hardware_profiles/curves"))
    options = parser.parse_args(arguments)
    tables = {table: rows(options.tables, table) for table in TABLES}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, sheet in DATASHEETS.items():
        path = options.out / f"{name}.yaml"
        write(path, render(curve_file(name, sheet, tables)))
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
