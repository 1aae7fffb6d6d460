"""Fit the error bands alone, to the present stages: ``python -m tests.lab.fit_bands RUNS_DIR``.

Four minutes of processor time: a stage with the runs and constants of another fold is not fitted again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.lab.fit_all import fit_bands, timed_runs

if __name__ == "__main__":
    fit_bands(timed_runs(Path(sys.argv[1])))
