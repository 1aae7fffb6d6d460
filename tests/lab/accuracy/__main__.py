"""How far predictions are from measured runs, as a page: ``python -m tests.lab.accuracy RUNS_DIR``.

Prints ``docs/accuracy.md``. With ``--plot FILE.svg`` it also writes the plot that the page shows, and with
``--out-of-fold source accelerator family model`` rows are priced with constants that have not seen their
source, accelerator, family of models or model: the first three take ten minutes of processor time
together, whatever a clock says beside other work; models a quarter of an hour.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from tests.lab.accuracy.lines import Left
from tests.lab.accuracy.page import page
from tests.lab.accuracy.plot import scatter
from tests.lab.accuracy.runs import accuracy_of, read_folder


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.accuracy", description=__doc__)
    parser.add_argument("runs", type=Path, help="folder with run tables")
    parser.add_argument("--plot", type=Path, help="SVG file to write")
    parser.add_argument(
        "--out-of-fold", nargs="+", choices=get_args(Left), default=[], help="also without it"
    )
    options = parser.parse_args(arguments)
    rows = read_folder(options.runs) if options.runs.is_dir() else []
    if not rows:
        parser.error(f"{options.runs}: no run table (*.csv) in it")
    found = accuracy_of(rows, options.out_of_fold, lambda line: sys.stderr.write(f"{line}\n"))
    if options.plot:
        options.plot.write_text(scatter(found.ordinary), encoding="utf-8")
    sys.stdout.write(page(found, options.plot.name if options.plot else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
