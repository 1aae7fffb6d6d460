"""Fit every kernel curve to the measured tables and write one file for each accelerator.

Run as ``python -m tests.lab.kernels TABLES_DIR [--out FOLDER] [--page docs/explanation/kernels.md]``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from planner.calibrate.kernels.files import render
from tests.lab.kernels.files import curve_files, rows, write
from tests.lab.kernels.page import with_tables

TABLES = ("gemm", "gemm_sustained", "attention", "moe", "collectives")


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, write, and tell the files."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.kernels", description=__doc__)
    parser.add_argument("tables", type=Path, help="folder with gemm.csv, attention.csv and the others")
    parser.add_argument("--out", type=Path, default=Path("hardware_profiles/curves"))
    parser.add_argument("--page", type=Path, help="document whose tables are made anew")
    options = parser.parse_args(arguments)
    tables = {table: rows(options.tables, table) for table in TABLES}
    options.out.mkdir(parents=True, exist_ok=True)
    for name, content in curve_files(tables).items():
        path = options.out / f"{name}.yaml"
        write(path, render(content))
        sys.stdout.write(f"{path}\n")
    if options.page:
        texts = (path.read_text(encoding="utf-8") for path in sorted(options.out.glob("*.yaml")))
        write(
            options.page,
            with_tables(options.page.read_text("utf-8"), [yaml.safe_load(text) for text in texts]),
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
