"""One view for every format: what text shows stands in HTML and CSV, and every column says its unit."""

from __future__ import annotations

import csv
import io
import json

import pytest

from planner.report import plan_columns
from planner.report.html_search import own_settings, search_report
from planner.report.plan_columns import LAYOUT, RANK
from planner.report.view import Column
from tests.cases import every
from tests.cli.command import planner
from tests.cli.test_explain import JOB

COLUMNS = {name: one for name, one in vars(plan_columns).items() if isinstance(one, Column)}
SUFFIXES = {
    "s": ("_s",), "GiB": ("_gib",), "USD": ("_usd", "cost_usd_per_step", "cost_usd_to_train"),
    "TFLOP/s": ("tflops_per_gpu",), "token/s": ("tokens_per_s_per_gpu",), "J": ("energy_j_per_step",),
    "day": ("days_to_train",), "share": ("mfu", "hfu", "_band", "_probability"),
}  # fmt: skip
"""How a key of the documents ends that has a unit."""


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    formats = ("table", "csv", "json")
    tokens = ("--top", "4", "--tokens", "1B", "-v")
    return {name: planner("search", *JOB, *tokens, "--format", name).out for name in formats}


def heads_of(text: str) -> set[str]:
    """Headings of the first table of plain text, two lines of which belong together."""
    lines = text.split("\n\n")[1].splitlines()
    return set(" ".join(lines[: next(n for n, line in enumerate(lines) if line.startswith("1 "))]).split())


def test_what_text_shows_of_plans_stands_in_html_under_the_same_name(shown: dict[str, str]) -> None:
    page = search_report(json.loads(shown["json"]), "found.json", "0")
    plans = next(block for block in page.blocks if block.title == "Plans")
    words = {word for head in plans.headings for word in head.split()}
    assert heads_of(shown["table"]) <= words
    assert {"layout", "s/step", "MFU", "days", "$ to train", "limited by"} <= set(plans.headings)


def test_every_column_stands_in_csv_under_its_key(shown: dict[str, str]) -> None:
    fields = set(csv.DictReader(io.StringIO(shown["csv"])).fieldnames or ())
    assert {one.key for one in COLUMNS.values() if one is not RANK} <= fields


@every("name", COLUMNS)
def test_a_column_of_numbers_has_a_unit_and_its_key_says_it(name: str) -> None:
    column = COLUMNS[name]
    if column.unit:
        assert column.key.endswith(SUFFIXES[column.unit])
    else:
        assert column.key in ("rank", "tp", "gpus", "runtime", "limited_by", "settings")


def test_a_name_means_one_key() -> None:
    keys: dict[str, str] = {}
    for column in COLUMNS.values():
        assert keys.setdefault(column.name, column.key) == column.key


def test_the_page_of_a_search_tells_the_settings_of_every_plan(shown: dict[str, str]) -> None:
    found = json.loads(shown["json"])
    plans = next(block for block in search_report(found, "", "0").blocks if block.title == "Plans")
    for row, document in zip(plans.rows, found["plans"], strict=True):
        told = plans.note + row[-1].text
        assert document["settings"]
        assert all(f"{name}={value}" in told for name, value in document["settings"].items())


def test_settings_that_differ_are_told_by_plan() -> None:
    rows, shared = own_settings([{"settings": "a=1 b=2"}, {"settings": "a=1 b=3"}, {"settings": "a=1"}])
    assert shared == ["a=1"]
    assert [row["settings"] for row in rows] == ["b=2", "b=3", ""]


def test_one_column_reads_the_same_in_text_and_html(shown: dict[str, str]) -> None:
    page = search_report(json.loads(shown["json"]), "", "0")
    plans = next(block for block in page.blocks if block.title == "Plans")
    place = plans.headings.index(LAYOUT.name)
    for row in plans.rows:
        assert all(word in shown["table"] for word in row[place].text.split())
