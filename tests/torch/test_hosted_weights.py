"""The table of weights on the host beside PyTorch's tracker, which counts it again."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.torch

TABLE = ROOT / "tests/oracle/fsdp_memory/hosted.csv"
COUNTED = ("peak_total", "host_total", "pinned_weights")


def test_the_tracker_counts_the_table() -> None:
    """Recomputed layers, small batches on two ranks, and rows that padding makes longer."""
    with TABLE.open(encoding="utf-8") as table:
        rows = [
            {name: int(value) if value.isdecimal() else value for name, value in row.items()}
            for row in csv.DictReader(table)
        ]
    chosen = [row for row in rows if (row["ac"] == "full" and row["seq"] <= 1024) or row["dp_shard"] == 2]
    assert len(chosen) >= 3
    done = subprocess.run(
        (sys.executable, str(ROOT / "tests/torch/fsdp_peak.py")), input="\n".join(map(json.dumps, chosen)),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [{name: row[name] for name in COUNTED} for row in chosen]
