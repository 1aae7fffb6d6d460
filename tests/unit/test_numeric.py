"""Arithmetic of one plan gives the bits of numpy, whatever it is asked with."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from planner import numeric
from planner.numeric import ceil, floor, maximum, minimum, sqrt, where

ANY = st.floats(allow_nan=True, allow_infinity=True)
WIDE = ANY.filter(lambda number: number != 0)
"""Numpy leaves open which of two zeros is the smaller."""


def same(found: object, known: object) -> bool:
    """Whether two numbers are the same, not-a-number among them."""
    return bool(np.array_equal(np.asarray(found, float), np.asarray(known, float), equal_nan=True))


@given(WIDE, WIDE)
def test_smaller_and_larger_are_those_of_numpy(one: float, other: float) -> None:
    assert same(minimum(one, other), np.minimum(one, other))
    assert same(maximum(one, other), np.maximum(one, other))
    assert same(minimum(np.array([one]), other), [np.minimum(one, other)])
    assert same(maximum(one, np.array([other])), [np.maximum(one, other)])


@given(ANY)
def test_whole_numbers_are_those_of_numpy(number: float) -> None:
    assert same(ceil(number), np.ceil(number))
    assert same(floor(number), np.floor(number))
    assert same(ceil(np.array([number])), [np.ceil(number)])


@given(st.floats(min_value=0, allow_infinity=True))
def test_roots_are_those_of_numpy(number: float) -> None:
    assert same(sqrt(number), np.sqrt(number))


def test_conditions_of_one_plan_and_of_many() -> None:
    assert where(np.bool_(False), 1.0, 2.0) == 2.0
    assert same(where(True, 1.0, np.array([2.0, 3.0])), [1.0, 1.0])
    assert numeric.any(2)
    assert not numeric.any(0.0)
    assert not numeric.any(np.bool_(False))
    assert numeric.any(np.array([0.0, 1.0]))
    assert not numeric.any(np.array([0.0]))


def test_one_plan_rounds_by_python_and_many_by_numpy() -> None:
    assert (ceil(1.5), minimum(3.0, 2.0)) == (math.ceil(1.5), 2.0)
    assert same(ceil(np.array([1.5])), [2.0])
    assert same(minimum(np.array([3.0]), 2.0), [2.0])
