"""The reference of the run table names every column, and its table of eras is the one in use."""

from __future__ import annotations

import re

import pytest

from planner.calibrate.eras import eras
from planner.calibrate.runs.table import COLUMNS
from tests.cases import every
from tests.helpers import ROOT

PAGE = ROOT / "docs" / "reference" / "run-table.md"
TABLE = re.compile(
    r"(?<=<!-- eras: written by their test with --update-golden -->\n).*?(?=<!-- end of eras -->)", re.DOTALL
)


def era_table() -> str:
    rows = (f"| `{era.name}` | `{era.runtime}` | {era.about} |\n" for era in eras())
    return "| era | priced as | what it stands for |\n| --- | --- | --- |\n" + "".join(rows)


@every("column", COLUMNS)
def test_every_column_is_described(column: str) -> None:
    assert f"`{column}`" in PAGE.read_text(encoding="utf-8")


def test_the_table_of_eras_is_the_one_in_use(request: pytest.FixtureRequest) -> None:
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--update-golden"):
        text = TABLE.sub(lambda _: era_table(), text)
        PAGE.write_text(text, encoding="utf-8")
    found = TABLE.search(text)
    assert found is not None
    assert found[0] == era_table(), "add --update-golden and read the diff"
