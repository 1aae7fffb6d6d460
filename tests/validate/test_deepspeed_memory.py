"""The table of what DeepSpeed's engine takes, which the engine counts again."""

from __future__ import annotations

import csv
import json
import subprocess

import pytest

from tests.helpers import ROOT
from tests.validate.ask import PYTHON

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("deepspeed", "no interpreter with deepspeed: make validate"),
]

COUNTED = ("rest", "forward_peak", "backward_peak", "step_peak", "host_rest")


def test_the_engine_counts_the_table() -> None:
    """Short rows: ZeRO-1 of two micro-batches, ZeRO-2 with states on the host and ZeRO-3 with weights."""
    with (ROOT / "tests/oracle/zero_memory/peaks.csv").open(encoding="utf-8") as table:
        rows = [
            {key: int(value) if value.isdecimal() else value for key, value in row.items()}
            for row in csv.DictReader(table)
        ]
    chosen = ("1", "2", "none"), ("2", "1", "optimizer"), ("3", "1", "weights")
    few = [row for row in rows if row["seq"] == 512 and row["ac"] == "full"]
    short = {(str(row["zero"]), str(row["accum"]), row["offload"]): row for row in few}
    short = {which: short[which] for which in chosen}
    done = subprocess.run(
        (PYTHON, str(ROOT / "tests/validate/zero_peak.py")),
        input="\n".join(json.dumps(row) for row in short.values()),
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert found == [{name: row[name] for name in COUNTED} for row in short.values()]
