"""Bandwidths that papers print for shares of compute, from steps played layer by layer."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from planner.numeric import Column
from tests.lab.sites.layered import at_the_end_of, every_step, in_turns, layered_utilisation

TABLE = Path(__file__).parent / "data" / "streaming_diloco_table4.csv"
GRID = 10 ** (-1 + 4 * np.arange(50) / 49)
"""Links that were simulated: printed bandwidths are among them. [Gbit/s]"""
SENT = 13.4
"""Bits of a parameter on the link, which the paper does not say: one number for all cells. [bit]"""
STEPS = 100


@cache
def computing(method: str, params: float, layers: int, step: float, delay: int = 1) -> tuple[float, ...]:
    """Return the share of compute on each link of the grid."""
    bits = SENT / 4 if "FP4" in method else SENT
    transfer: Column = bits * params / layers / (GRID * 1e9)
    late = delay if "overlapped" in method else 0
    if method == "Data-Parallel":
        return tuple(layered_utilisation(layers, step, transfer, 3, every_step))
    sends = at_the_end_of(STEPS) if method == "DiLoCo" else in_turns(STEPS, layers)
    return tuple(layered_utilisation(layers, step, transfer, STEPS, sends, late))


def needed(shares: tuple[float, ...], wanted: float) -> int:
    """Return the place of the first link that is enough."""
    return next((place for place, share in enumerate(shares) if share >= wanted), len(GRID) - 1)


def place_of(printed: float) -> int:
    return int(np.argmin(np.abs(np.log(GRID / printed))))


def cells() -> list[dict[str, str]]:
    with TABLE.open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def test_table_4_of_streaming_diloco() -> None:
    # arXiv:2501.18512, table 4: all 75 cells within a point of the grid that they are printed on.
    off = []
    for row in cells():
        params = float(row["model"].removeprefix("chinchilla-").removesuffix("B")) * 1e9
        shares = computing(row["method"], params, int(row["layers"]), float(row["step_s"]))
        assert float(row["gbit_per_s"]) == pytest.approx(GRID[place_of(float(row["gbit_per_s"]))], abs=0.06)
        off.append(needed(shares, float(row["utilisation_pct"]) / 100) - place_of(float(row["gbit_per_s"])))
    assert len(off) == 75
    assert max(map(abs, off)) <= 1
    assert off.count(0) >= 65


@pytest.mark.parametrize("model", [(10e9, 48, 0.8), (405e9, 126, 26.0)])
def test_other_inner_steps_of_the_scaling_laws(model: tuple[float, int, float]) -> None:
    # arXiv:2503.09799, tables 6 and 7: data parallelism at 50, 80, 90, 95 and 99%, on the same grid.
    printed = {10e9: (104.8, 184.2, 222.3, 222.3, 390.7), 405e9: (126.5, 222.3, 268.3, 323.8, 323.8)}
    shares = computing("Data-Parallel", *model)
    for wanted, rate in zip((0.5, 0.8, 0.9, 0.95, 0.99), printed[model[0]], strict=True):
        assert abs(needed(shares, wanted) - place_of(rate)) <= 1


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
