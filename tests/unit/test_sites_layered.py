"""Bandwidths that papers print for shares of compute, from steps played layer by layer."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from planner.formulas.low_communication import exchange_period
from planner.numeric import Column
from tests.cases import every
from tests.lab.sites.layered import at_the_end_of, every_step, in_turns, layered_utilisation

TABLE = Path(__file__).parent / "data" / "low_communication.csv"
GRID = 10 ** (-1 + 4 * np.arange(50) / 49)
"""Links that were simulated: printed bandwidths are among them. [Gbit/s]"""
SENT = 13.4
"""Bits of a parameter on the link, which the paper does not say: one number for all its cells. [bit]"""
SENT_LATER = 12.0
"""The same of arXiv:2503.09799, whose models are others of about the same sizes. [bit]"""
STEPS = 100


Cell = dict[str, str]


@cache
def computing(
    method: str,
    params: float,
    layers: int,
    step: float,
    inner: int = STEPS,
    delay: int = 1,
    sent: float = SENT,
) -> tuple[float, ...]:
    """Return the share of compute on each link of the grid."""
    bits = sent / 4 if "FP4" in method else sent
    transfer: Column = bits * params / layers / (GRID * 1e9)
    return tuple(played(method, layers, step, transfer, (inner, delay)))


def played(method: str, layers: int, step: float, transfer: Column, steps: tuple[int, int]) -> Column:
    """Return the share of compute on links where a layer's reduction takes so long."""
    inner, delay = steps
    late = delay if "overlapped" in method else 0
    if method == "Data-Parallel":
        return layered_utilisation(layers, step, transfer, 3, every_step)
    sends = at_the_end_of(inner) if method == "DiLoCo" else in_turns(inner, layers)
    return layered_utilisation(layers, step, transfer, inner, sends, late)


def needed(shares: tuple[float, ...], wanted: float) -> int:
    """Return the place of the first link that is enough."""
    return next((place for place, share in enumerate(shares) if share >= wanted), len(GRID) - 1)


def place_of(printed: float) -> int:
    return int(np.argmin(np.abs(np.log(GRID / printed))))


def cells() -> list[Cell]:
    with TABLE.open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def steps_off(row: Cell) -> int:
    """Return how many points of the grid the played bandwidth is above the printed one."""
    size = (1e9 * float(row["params_b"]), int(row["layers"]), float(row["step_s"]))
    sent = SENT if "Table 4" in row["source"] else SENT_LATER
    shares = computing(row["method"], *size, int(row["inner_steps"] or STEPS), sent=sent)
    return needed(shares, float(row["utilisation_pct"]) / 100) - place_of(float(row["gbit_per_s"]))


CELLS = cells()
SIMULATED = [
    row for row in CELLS if row["source"] in ("arXiv 2501.18512 Table 4", "arXiv 2503.09799 Table 6/7")
]


def test_no_cell_is_left_out() -> None:
    tested = [*SIMULATED, *(row for row in CELLS if row["exchange_s"]), *one_gigabit()]
    assert len(CELLS) == len(tested) == 175


@every("row", SIMULATED, ids=lambda row: row["id"])
def test_a_printed_bandwidth_is_what_is_played(row: Cell) -> None:
    # arXiv:2501.18512, table 4, and arXiv:2503.09799, tables 6 and 7, within a point of the grid that they
    # are printed on (a factor of 1.21), by one number of bits for a parameter in each paper.
    printed = float(row["gbit_per_s"])
    assert printed == pytest.approx(GRID[place_of(printed)], rel=0.002, abs=0.06)
    assert abs(steps_off(row)) <= 1


def test_most_cells_are_exact() -> None:
    off = [(row["source"], abs(steps_off(row))) for row in SIMULATED]
    first, second = ([step for source, step in off if table in source] for table in ("Table 4", "Table 6/7"))
    assert (len(first), len(second)) == (75, 90)
    assert first.count(0) >= 65
    assert second.count(0) >= 64


@every("row", [row for row in CELLS if row["exchange_s"]], ids=lambda row: row["id"])
def test_intellect_1_computes_as_much_as_it_printed(row: Cell) -> None:
    # arXiv:2412.01152, table 2: 100 inner steps of 22.8 s, and the median exchange by continent.
    compute = float(row["inner_steps"]) * float(row["step_s"])
    period = float(exchange_period(compute, float(row["exchange_s"]), 0.0))
    assert 100 * compute / period == pytest.approx(float(row["utilisation_pct"]), abs=0.1)


def one_gigabit() -> list[Cell]:
    return [row for row in CELLS if row["source"] == "arXiv 2501.18512 Table 1"]


@every("row", one_gigabit(), ids=lambda row: row["id"])
def test_hours_at_a_gigabit(row: Cell) -> None:
    # arXiv:2501.18512, table 1: hours without a link over those with one of 1 Gbit/s, a share of compute.
    # The step is not printed: 0.082 s is one number for all six, and is near the 0.1 s of table 4.
    params, layers = 1e9 * float(row["params_b"]), int(row["layers"])
    bits = SENT / 4 if "FP4" in row["method"] else SENT
    transfer: Column = np.array([bits * params / layers / 1e9])
    share = float(played(row["method"], layers, 0.082, transfer, (STEPS, 1))[0])
    assert 100 * share == pytest.approx(float(row["utilisation_pct"]), rel=0.03)


def test_overlap_of_a_step_and_of_a_whole_period() -> None:
    # arXiv:2502.12996: 100B at 99% needs 471.5 Gbit/s, 1.4 with a step of overlap, 0.4 with a whole period.
    # By bytes alone 0.4 is too little for 4 bits in 100 steps, so of that the order is held.
    size = (100e9, 108, 4.9)
    plain, late = computing("Data-Parallel", *size), computing("Streaming DiLoCo overlapped FP4", *size)
    whole = computing("Streaming DiLoCo overlapped FP4", *size, delay=STEPS)
    assert abs(needed(plain, 0.99) - place_of(471.5)) <= 1
    assert needed(late, 0.99) == place_of(1.4)
    assert place_of(0.4) <= needed(whole, 0.99) < needed(late, 0.99)
    assert pytest.approx(336, abs=1) == 471.5 / 1.4


def test_a_fragment_has_the_share_of_three_layers_in_the_peak() -> None:
    # arXiv:2501.18512: peak 24 / 3 = 8 times less; 400 times fewer bytes are 100 steps times 16 over 4 bits.
    together = [sum(in_turns(STEPS, 24)(step, layer) for layer in range(24)) for step in range(STEPS)]
    assert max(together) == 3
    assert sum(together) == 24
    assert STEPS * 16 / 4 == 400
