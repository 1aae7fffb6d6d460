"""Whether the chance of running out of memory is what it says: runs by predicted chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from planner.calibrate.validate import Outcome

EDGES: Final = (0.0, 0.01, 0.05, 0.3, 0.7, 0.95, 1.0)
"""Bounds of the predicted chance between which runs are counted together. [-]"""


@dataclass(frozen=True)
class RiskBin:
    """Runs whose predicted chance of running out lies between two bounds, the upper one excluded but for 1.

    Parameters
    ----------
    low, high : float
        The bounds. [-]
    rows, ran_out : int
        Runs, and those that ran out of memory. [-]
    expected : float
        Sum of the predicted chances. [-]
    """

    low: float
    high: float
    rows: int
    ran_out: int
    expected: float


def risk_bins(outcomes: Sequence[Outcome]) -> list[RiskBin]:
    """Return the bins of all runs whose outcome is known, empty ones too."""
    known = [
        (outcome.oom_probability, outcome.scored.measured_oom)
        for outcome in outcomes
        if outcome.oom_probability is not None and outcome.scored.measured_oom is not None
    ]
    bins = []
    for low, high in pairwise(EDGES):
        inside = [
            (chance, oom) for chance, oom in known if low <= chance < high or chance == high == EDGES[-1]
        ]
        expected = sum(chance for chance, _ in inside)
        bins.append(RiskBin(low, high, len(inside), sum(oom for _, oom in inside), expected))
    return bins


def risk_cells(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return the bins as cells of a table."""
    return [
        [
            f"{100 * found.low:g} to {100 * found.high:g}%",
            str(found.rows),
            f"{found.expected:.1f}",
            str(found.ran_out),
        ]
        for found in risk_bins(outcomes)
    ]


HEAD: Final = ("predicted chance", "runs", "expected to run out", "ran out")

ABOUT: Final = """\
Runs whose outcome is known, by the chance of running out that was predicted for them. Published tables
mostly hold runs that went well, so that fewer run out than expected where the chance is small. The one that
ran out at a chance below 5% has no known cause: more weights ran in the same layout (203B in 67 of 80 GB).
"""
