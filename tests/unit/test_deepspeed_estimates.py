"""DeepSpeed's own estimators of states: the tables of its documentation, and where answers show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.formulas.deepspeed_estimates import (
    estimated_host_bytes,
    estimated_zero2_bytes,
    estimated_zero3_bytes,
)
from tests.cases import every
from tests.cli.command import planner

GIB = 2.0**30
PARAMS, LARGEST = 2851e6, 32e6
PRINTED = [
    (True, True, True, 71.71, 0.12),
    (True, True, False, 127.48, 0.12),
    (False, True, True, 63.74, 0.79),
    (False, True, False, 127.48, 0.79),
    (False, False, True, 1.47, 6.10),
    (False, False, False, 127.48, 6.10),
]


@every(("weights", "states", "built", "host", "device"), PRINTED)
def test_the_table_of_zero_3(weights: bool, states: bool, built: bool, host: float, device: float) -> None:
    """docs/code-docs/source/memory.rst: 2851 M weights, 32 M in the largest layer, one node of eight."""
    kept = 18.0 if weights else 16.0 if states else 0.0
    shared = 0.0 if weights else 2.0 if states else 18.0
    whole = LARGEST if built and not kept else PARAMS
    assert estimated_zero3_bytes(PARAMS, LARGEST, 8, shared) / GIB == pytest.approx(device, abs=0.01)
    bytes_of_host = estimated_host_bytes(whole, 1, 8, kept, 0.0 if built and kept else 4.0)
    assert bytes_of_host / GIB == pytest.approx(host, abs=0.06)


def test_the_table_of_zero_2_is_older_than_its_code() -> None:
    assert estimated_zero2_bytes(PARAMS, 8, 0.0) / GIB == pytest.approx(5.31, abs=0.01)
    assert estimated_host_bytes(PARAMS, 1, 8, 16.0, 4.0) / GIB == pytest.approx(127.48, abs=0.06)
    printed = (4 * PARAMS + 16 * PARAMS / 8) / GIB
    assert printed == pytest.approx(15.93, abs=0.01)
    assert estimated_zero2_bytes(PARAMS, 8, 18.0) / GIB == pytest.approx(11.28, abs=0.01)


def test_an_explanation_says_what_deepspeed_would_say(tmp_path: Path) -> None:
    job = ("llama3-8b", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "4096", "--global-batch", "64")
    saved = tmp_path / "plan.yaml"
    planner("estimate", *job, "--runtime", "deepspeed", "--zero", "3", "--save", str(saved))
    done = planner("explain", str(saved), "--format", "json")
    words = "states, by DeepSpeed's own estimator"
    own, host = (one for one in done.json["beside_step"] if one["what"] == words)
    largest = 128256 * 4096
    assert (own["place"], host["place"]) == ("device", "host")
    assert own["at_most_gib"] == pytest.approx((4 * largest + 18 * 8.03e9 / 8) / GIB, rel=0.01)
