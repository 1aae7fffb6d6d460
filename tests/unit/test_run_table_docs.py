"""The reference of the run table names every column and every era as they are."""

from __future__ import annotations

import pytest

from planner.calibrate.eras import ERAS, Era
from planner.calibrate.run_table import COLUMNS, NEEDED
from tests.helpers import ROOT

PAGE = (ROOT / "docs" / "reference" / "run-table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("column", [*COLUMNS, *NEEDED])
def test_every_column_is_described(column: str) -> None:
    assert f"`{column}`" in PAGE


@pytest.mark.parametrize("era", ERAS, ids=lambda era: era.name)
def test_every_era_is_described(era: Era) -> None:
    assert f"| `{era.name}` | `{era.runtime}` | {era.about} |" in PAGE
