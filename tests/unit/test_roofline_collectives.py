"""Measured collectives: hand arithmetic, smoothness in the number of ranks, and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.formulas.collective_curves import BUS_FACTOR, CollectiveCurve, collective_seconds, launch_seconds

CURVE = CollectiveCurve(
    bus_factor=BUS_FACTOR["all_reduce"],
    ranks=(2.0, 4.0, 8.0),
    launch=(8e-6, 10e-6, 20e-6),
    seconds_per_byte=(1 / 200e9, 1 / 400e9, 1 / 400e9),
    ramp=(0.0, 16e-6, 36e-6),
)


def test_measured_ranks_by_hand() -> None:
    # Two ranks, 200 MB: 2 * (1/2) * 200 MB at 200 GB/s is 1 ms.
    assert collective_seconds(200e6, 2.0, CURVE) == pytest.approx(8e-6 + 1e-3)
    # Eight ranks: 2 * (7/8) * 160 MB at 400 GB/s is 0.7 ms; ramp sqrt(36 us * 700 us).
    assert collective_seconds(160e6, 8.0, CURVE) == pytest.approx(20e-6 + 700e-6 + (36e-6 * 700e-6) ** 0.5)


def test_gather_crosses_the_link_once() -> None:
    gather = replace(CURVE, bus_factor=BUS_FACTOR["all_gather"])
    assert collective_seconds(200e6, 2.0, gather) == pytest.approx(8e-6 + 0.5e-3)


def test_between_and_beyond_the_measured_ranks() -> None:
    assert [float(launch_seconds(ranks, CURVE)) for ranks in (2.0, 3.0, 6.0, 8.0)] == pytest.approx(
        [8e-6, 9e-6, 15e-6, 20e-6]
    )
    # Beyond eight the launch grows by 2.5 us for each rank, as between four and eight.
    assert launch_seconds(16.0, CURVE) == pytest.approx(40e-6)


def test_one_rank_costs_nothing() -> None:
    assert collective_seconds(1e9, 1.0, CURVE) == 0


def test_one_measured_number_of_ranks_is_enough() -> None:
    single = CollectiveCurve(1.0, (4.0,), (10e-6,), (1 / 400e9,), (16e-6,))
    assert launch_seconds(16.0, single) == pytest.approx(10e-6)


@given(nbytes=st.floats(1, 1e10), more=st.floats(1, 1e9), ranks=st.integers(2, 80))
def test_more_bytes_never_take_less(nbytes: float, more: float, ranks: int) -> None:
    assert collective_seconds(nbytes, ranks, CURVE) <= collective_seconds(nbytes + more, ranks, CURVE)


def test_array_equals_scalar() -> None:
    draw = np.random.default_rng(11)
    nbytes, ranks = draw.uniform(1, 1e9, 400), draw.integers(1, 72, 400).astype(float)
    column = collective_seconds(nbytes, ranks, CURVE)
    pairs = zip(nbytes.tolist(), ranks.tolist(), strict=True)
    assert column.tolist() == [float(collective_seconds(size, n, CURVE)) for size, n in pairs]
