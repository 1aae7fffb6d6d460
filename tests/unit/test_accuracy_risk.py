"""The table of predicted chances: every run in one bin, sums by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibrate.validate import Outcome
from tests.lab.accuracy.risk import EDGES, HEAD, risk_bins, risk_cells
from tests.unit.test_calibrate_accuracy import outcome


def run(chance: float | None, oom: bool | None) -> Outcome:
    return replace(outcome("r", 1.0, 1.0, measured_oom=oom), oom_probability=chance)


def test_each_run_with_a_known_outcome_is_in_one_bin() -> None:
    runs = [run(chance, oom=True) for chance in (*EDGES, 0.5, 0.999)] + [
        run(None, oom=True),
        run(0.5, oom=None),
    ]
    assert sum(found.rows for found in risk_bins(runs)) == len(EDGES) + 2


def test_what_was_expected_and_what_ran_out() -> None:
    bins = risk_bins([run(0.02, oom=False), run(0.04, oom=True), run(0.05, oom=False), run(1.0, oom=True)])
    assert [(found.rows, found.ran_out) for found in bins] == [(0, 0), (2, 1), (1, 0), (0, 0), (0, 0), (1, 1)]
    assert [found.expected for found in bins] == pytest.approx([0, 0.06, 0.05, 0, 0, 1])
    cells = risk_cells([run(0.02, oom=False), run(0.04, oom=True)])
    assert cells[1] == ["1 to 5%", "2", "0.1", "1"]
    assert len(cells[0]) == len(HEAD)
