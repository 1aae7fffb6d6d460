"""Fit the error bands alone, to the present stages: ``python -m tests.lab.fit_bands RUNS_DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.fit_all import fit_bands, timed_runs

if __name__ == "__main__":
    fit_bands(timed_runs(Path(sys.argv[1])))
