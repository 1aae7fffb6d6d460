"""Text with a unit becomes a float in base units; bits, bytes, kilo and kibi never mix."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner import units
from tests.cases import every
from tests.texts import LETTERS


@every(
    ("text", "dimension", "value"),
    [
        ("80 GiB", "byte", 80 * 1024**3),
        ("80 GB", "byte", 80_000_000_000),
        ("80GB", "byte", 80_000_000_000),
        ("1.5 TiB", "byte", 1.5 * 1024**4),
        ("512 B", "byte", 512),
        ("3.35 TB/s", "byte/s", 3.35e12),
        ("400 Gbit/s", "byte/s", 50e9),
        ("450 GB/s", "byte/s", 450e9),
        ("989 TFLOP/s", "FLOP/s", 989e12),
        ("4.5 PFLOP/s", "FLOP/s", 4.5e15),
        ("5 us", "s", 5e-6),
        ("1.5e-3 ms", "s", 1.5e-6),
        ("2 h", "s", 7200),
        ("1 d", "s", 86400),
        ("700 W", "W", 700),
        ("10.2 kW", "W", 10200),
        ("2.5 USD/h", "USD/h", 2.5),
        ("62 %", "-", 0.62),
        ("0.62", "-", 0.62),
        (0.62, "-", 0.62),
        (64, "-", 64),
        ("1e9", "-", 1e9),
        (".5 s", "s", 0.5),
        ("  3 GB ", "byte", 3e9),
        ("-1 s", "s", -1),
    ],
)
def test_a_quantity_is_read_in_its_base_unit(text: object, dimension: str, value: float) -> None:
    assert units.parse(text, dimension) == pytest.approx(value, rel=1e-15)


@every(
    ("text", "dimension", "message"),
    [
        (80, "byte", "no unit; accepted: B, kB"),
        ("80", "byte", "no unit; accepted: B, kB"),
        ("80 Gb", "byte", "unit 'Gb'"),
        ("80 gb", "byte", "unit 'gb'"),
        ("80 Gbit", "byte", "unit 'Gbit'"),
        ("400 Gbps", "byte/s", "unit 'Gbps'"),
        ("3 TB", "byte/s", "unit 'TB'"),
        ("3 TB/s", "byte", "unit 'TB/s'"),
        ("989 TFLOPS", "FLOP/s", "unit 'TFLOPS'"),
        ("5 s", "-", "accepted: a bare number, %"),
        ("5 s 3", "s", "not a number with a unit"),
        ("GiB", "byte", "not a number"),
        ("", "byte", "not a number"),
        ("nan GiB", "byte", "not a number"),
        ("inf", "-", "not a number"),
        ("1e999 s", "s", "not a finite number"),
        (float("nan"), "-", "not a number"),
        (float("inf"), "-", "not a number"),
        (True, "-", "not a number"),
        (None, "byte", "not a number"),
        ([80], "byte", "not a number"),
        ("1,5 s", "s", "not a number"),
        ("0x10 B", "byte", "not a number"),
    ],
)
def test_what_is_no_quantity_of_that_dimension_is_refused(text: object, dimension: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        units.parse(text, dimension)


def test_a_quantity_beyond_all_floats_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        units.parse("1e308 TB", "byte")


@given(st.text(LETTERS), st.sampled_from(sorted(units.DIMENSIONS)))
def test_any_text_is_either_a_finite_number_or_a_value_error(text: str, dimension: str) -> None:
    try:
        value = units.parse(text, dimension)
    except ValueError:
        return
    assert math.isfinite(value)


@every(
    ("value", "dimension", "text"),
    [
        (80 * 1024**3, "byte", "80 GiB"),
        (80e9, "byte", "74.5 GiB"),
        (0, "byte", "0 B"),
        (3.35e12, "byte/s", "3.35 TB/s"),
        (50e9, "byte/s", "50 GB/s"),
        (0.00042, "s", "420 us"),
        (12.345, "s", "12.3 s"),
        (7200, "s", "2 h"),
        (989e12, "FLOP/s", "989 TFLOP/s"),
        (0.5, "-", "50 %"),
        (2.0, "-", "2"),
        (-5e-3, "s", "-5 ms"),
        (math.inf, "s", "inf"),
    ],
)
def test_a_value_is_shown_in_the_unit_that_reads_best(value: float, dimension: str, text: str) -> None:
    assert units.show(value, dimension) == text


@given(
    st.floats(1e-9, 1e18, allow_nan=False),
    st.sampled_from(["byte", "byte/s", "FLOP/s", "s", "W", "USD/h"]),
)
def test_what_is_shown_can_be_read_back_to_three_digits(value: float, dimension: str) -> None:
    assert units.parse(units.show(value, dimension), dimension) == pytest.approx(value, rel=0.006)


def test_the_constants_are_what_their_names_say() -> None:
    assert (units.KB, units.GB, units.TB) == (10**3, 10**9, 10**12)
    assert (units.KIB, units.MIB, units.GIB) == (1024, 1024**2, 1024**3)
    assert units.DAY == 24 * units.HOUR == 24 * 60 * 60
    assert round(1 / units.MICROSECOND) == 1_000_000
