"""Whatever a cell holds, the other rows are priced, and the row itself is priced or told."""

from __future__ import annotations

import csv
import json
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.calibrate.pricing import cost_predictions
from planner.calibrate.runs.catalogue import Catalogue, shipped_catalogue
from planner.calibrate.runs.table import COLUMNS, Run, read_header, read_row
from planner.calibrate.validate import as_json, validate
from tests.texts import LETTERS

RUNS = Path(__file__).parents[1] / "measured" / "runs"
TABLES = ("layouts_sweep", "bloom", "llm_foundry", "torchtitan", "long_sequence", "zero_bubble", "sc21")
NAMES = list(COLUMNS)
HEADER, _ = read_header(NAMES, "runs")

cells = st.one_of(
    st.sampled_from(
        ["", "0", "1", "2", "3", "7", "8", "64", "1e9", "1e300", "-1", "nan", "0.5", "inf", "1e-9"]
    ),
    st.sampled_from(
        ["none", "full", "full:2", "block:0", "selective:x", "fp8", "nvfp4", "int3", "hsdp:3", "hsdp:1"]
    ),
    st.sampled_from(
        ["1f1b", "interleaved", "zb-v", "dualpipe", "h100", "tpu-v3", "megatron-lm", "deepspeed"]
    ),
    st.sampled_from(
        ["pp_layout=Et*4|(t*4|)*14tmL", "pp_layout=(((*|", "999999x9Gb IB", "task=lora", "eager"]
    ),
    st.text(LETTERS, max_size=12),
    st.integers(-3, 10**12).map(str),
)
changes = st.dictionaries(st.sampled_from([name for name in NAMES if name != "id"]), cells, max_size=5)


@cache
def catalogue() -> Catalogue:
    return shipped_catalogue()


@cache
def samples() -> tuple[dict[str, str], ...]:
    rows: list[dict[str, str]] = []
    for table in TABLES:
        with (RUNS / f"{table}.csv").open(encoding="utf-8", newline="") as lines:
            rows += list(csv.DictReader(lines))[::40]
    return tuple(rows)


@settings(max_examples=150)
@given(st.data(), changes)
def test_a_row_is_priced_or_told_whatever_its_cells_hold(data: st.DataObject, change: dict[str, str]) -> None:
    row = data.draw(st.sampled_from(samples())) | change
    good = samples()[0]
    table = [
        read_row([cells.get(name, "") for name in NAMES], HEADER, line)
        for line, cells in enumerate((row | {"id": "odd"}, good | {"id": "good"}), start=2)
    ]
    document = as_json(validate(table, catalogue(), cost_predictions))
    assert document["rows"] == 2
    named = [entry["id"] for entry in document["per_row"]] + [skip["id"] for skip in document["skipped"]]
    assert sorted(named) == ["good", "odd"]
    assert isinstance(table[1], Run)
    json.dumps(document, allow_nan=False)
