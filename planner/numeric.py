"""The number type that every formula takes, one plan or ten million, and numpy's operations on it.

Those that Python too has are used by the module's name, as numpy's are: ``numeric.any``.
"""

from __future__ import annotations

import builtins
import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
"""An array of float64, one entry for each plan."""

Num = float | Column
"""A float or a float64 array of any broadcastable shape."""

PLAIN = (float, int)
"""Numbers of one plan."""
SINGLE = (*PLAIN, np.bool_)
"""These, and what holds for one plan; numpy's float64 is a float."""

Truth = bool | np.bool_ | NDArray[np.bool_]
"""Whether something holds: for one plan, or for each of many."""

ONE = (bool, np.bool_)
"""What holds for one plan."""


def minimum(one: Num, other: Num) -> Num:
    """Return the smaller of two numbers, or of each pair: `numpy.minimum`, without its price for one plan.

    Examples
    --------
    >>> minimum(1.0, 2.0)
    1.0
    """
    if isinstance(one, float) and isinstance(other, float):
        return one if one <= other or one != one else other
    return np.minimum(one, other)


def maximum(one: Num, other: Num) -> Num:
    """Return the larger of two numbers, or of each pair: `numpy.maximum`, without its price for one plan.

    Examples
    --------
    >>> maximum(1.0, 2.0)
    2.0
    """
    if isinstance(one, float) and isinstance(other, float):
        return one if one >= other or one != one else other
    return np.maximum(one, other)


def ceil(number: Num) -> Num:
    """Return the next whole number from a number up: `numpy.ceil`, without its price for one plan.

    Examples
    --------
    >>> ceil(1.5)
    2.0
    """
    if isinstance(number, PLAIN) and math.isfinite(number):
        return float(math.ceil(number))
    return np.ceil(number)


def floor(number: Num) -> Num:
    """Return the next whole number from a number down: `numpy.floor`, without its price for one plan.

    Examples
    --------
    >>> floor(1.5)
    1.0
    """
    if isinstance(number, PLAIN) and math.isfinite(number):
        return float(math.floor(number))
    return np.floor(number)


def doublings(number: Num) -> Num:
    """Return how often one must be doubled to reach a number from 1 on: the depth of a binary tree.

    Taken from its bits, so that it is exact and alike for one plan and for many.

    Examples
    --------
    >>> [doublings(number) for number in (1.0, 2.0, 3.0, 4.0, 5.0)]
    [0.0, 1.0, 2.0, 2.0, 3.0]
    """
    if isinstance(number, PLAIN):
        return float(math.frexp(number - 0.5)[1])
    return np.frexp(number - 0.5)[1].astype(float)


def sqrt(number: Num) -> Num:
    """Return the square root: `numpy.sqrt`, without its price for one plan; both round correctly.

    Examples
    --------
    >>> sqrt(9.0)
    3.0
    """
    if isinstance(number, float) and number >= 0:
        return math.sqrt(number)
    return np.sqrt(number)


def power(base: Num, exponent: Num) -> Num:
    """Raise to a power, a number alone to the same bits as in an array.

    Examples
    --------
    >>> float(power(0.5, 3.0))
    0.125
    """
    found: Num = np.power(base, exponent)
    return found


def where(condition: Truth, one: Num, other: Num) -> Num:
    """Return one number where a condition holds, else the other: `numpy.where`, cheaper for one plan.

    Examples
    --------
    >>> where(True, 1.0, 2.0)
    1.0
    """
    if isinstance(one, float) and isinstance(other, float) and isinstance(condition, ONE):
        return one if condition else other
    return np.where(condition, one, other)


def max(value: Num) -> Num:
    """Return the most along the first axis, the ranks: `numpy.max`, where a number stands for one rank.

    Examples
    --------
    >>> max(3.0)
    3.0
    """
    if not isinstance(value, np.ndarray):
        return value
    found: Num = float(value.max()) if value.ndim == 1 else value.max(axis=0)
    return found


def any(value: Num | Truth) -> bool:
    """Whether a number is not zero, or any of many: `numpy.any`, without its price for one plan.

    Examples
    --------
    >>> any(0.0)
    False
    """
    return bool(value) if isinstance(value, SINGLE) else bool(np.asarray(value).any())


def all(holds: Truth) -> bool:
    """Whether something holds for all plans: `numpy.all`, without its price for one plan.

    Examples
    --------
    >>> all(True), all(np.array([True, False]))
    (True, False)
    """
    return bool(holds) if isinstance(holds, ONE) else bool(np.asarray(holds).all())


MOST_VALUES: Final = 2048
"""Entries up to which a column is known by its values: longer ones take as long to compare as to use. [-]"""


class ByValue:
    """A number, or a column that nobody may change any more, as a key: known by its values.

    Examples
    --------
    >>> ByValue(np.array([1.0, 2.0])) == ByValue(np.array([1.0, 2.0])), ByValue(1.0) == ByValue(2.0)
    (True, False)
    """

    __slots__ = ("key", "numbers")

    def __init__(self, numbers: Num) -> None:
        self.numbers = numbers
        self.key = (numbers.shape, numbers.tobytes()) if isinstance(numbers, np.ndarray) else numbers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByValue) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def is_short(*numbers: Num) -> bool:
    """Whether each is a number, or a column that is short enough to be known by its values."""
    return builtins.all(
        one.size <= MOST_VALUES if isinstance(one, np.ndarray) else isinstance(one, PLAIN) for one in numbers
    )
