"""The tables of weights on the host and of flat parameters, which PyTorch's own code counts again."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from tests.helpers import ROOT

pytestmark = pytest.mark.torch

TABLES = ROOT / "tests/oracle/fsdp_memory"
COUNTED = ("peak_total", "host_total", "pinned_weights")
TINY = 1024
"""Tokens of rows that are few enough to be counted again."""


@pytest.mark.parametrize("name", ["hosted", "flat"])
def test_the_program_counts_the_table(name: str) -> None:
    """Recomputed layers, small batches on two ranks, and rows that padding makes longer."""
    with (TABLES / f"{name}.csv").open(encoding="utf-8") as table:
        rows = [
            {key: int(value) if value.isdecimal() else value for key, value in row.items()}
            for row in csv.DictReader(table)
        ]
    chosen = [row for row in rows if (row["ac"] == "full" and row["seq"] <= TINY) or row["dp_shard"] == 2]
    assert len(chosen) >= 3
    done = subprocess.run(
        (sys.executable, str(ROOT / "tests/torch/fsdp_peak.py")), input="\n".join(map(json.dumps, chosen)),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [{key: row[key] for key in COUNTED if key in row} for row in chosen]
