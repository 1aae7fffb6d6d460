"""Numbers that carry the exponents of byte, second, FLOP and element through any formula."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

BASES: Final = ("byte", "s", "FLOP", "element")
Exponents = tuple[Fraction, ...]
NONE: Final[Exponents] = (Fraction(0),) * len(BASES)


class UnitError(AssertionError):
    """Two quantities of unlike units met where units must be alike."""


def exponents(unit: str) -> Exponents:
    """Return the exponents of a unit such as ``byte/s`` or ``element^2``; those of ``-`` are zero."""
    powers = dict.fromkeys(BASES, Fraction(0))
    above, _, below = unit.partition("/")
    for sign, part in ((1, above), (-1, below)):
        base, _, power = part.partition("^")
        if base in powers:
            powers[base] += sign * Fraction(power or 1)
        elif base not in {"", "-", "1"}:
            raise UnitError(f"{unit} is not made of {', '.join(BASES)}")
    return tuple(powers[base] for base in BASES)


@dataclass(frozen=True, eq=False)
class Quantity(NDArrayOperatorsMixin):
    """A number with its unit. Zero and infinity have any unit; other plain numbers have none."""

    value: float
    unit: Exponents = NONE

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        values = [getattr(one, "value", one) for one in inputs]
        if method != "__call__" or ufunc.__name__ not in RULES:
            raise UnitError(f"{ufunc.__name__} of quantities has no rule")
        unit = RULES[ufunc.__name__](inputs)
        result = ufunc(*values, **kwargs)
        return result if unit is None else Quantity(float(result), unit)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where:
            chosen = np.where(args[0], *(getattr(one, "value", one) for one in args[1:]))
            return Quantity(float(chosen), alike(args[1:]))
        if function is np.interp:
            x, places, heights = args
            alike((x, *places))
            points = [[one.value for one in column] for column in (places, heights)]
            return Quantity(float(np.interp(x.value, *points)), alike(heights))
        raise UnitError(f"{function.__name__} of quantities has no rule")

    __hash__ = object.__hash__

    def __float__(self) -> float:
        return self.value


def unit_of(one: Any) -> Exponents | None:
    """Return the unit of a number; None where it goes with any."""
    if isinstance(one, Quantity):
        return one.unit
    return None if one == 0 or np.isinf(one) else NONE


def alike(inputs: Any) -> Exponents:
    """Return the unit that all inputs share."""
    units = {unit for unit in map(unit_of, inputs) if unit is not None}
    if len(units) > 1:
        raise UnitError(" meets ".join(sorted(map(written, units))))
    return units.pop() if units else NONE


def written(unit: Exponents) -> str:
    """Return a unit in words."""
    return " ".join(f"{base}^{power}" for base, power in zip(BASES, unit, strict=True) if power) or "-"


def scaled(unit: Exponents, factor: Fraction) -> Exponents:
    """Return the unit of a power."""
    return tuple(power * factor for power in unit)


def joined(inputs: Any, sign: int) -> Exponents:
    """Return the unit of a product or a quotient."""
    first, second = (unit_of(one) or NONE for one in inputs)
    return tuple(a + sign * b for a, b in zip(first, second, strict=True))


def compared(inputs: Any) -> None:
    """Check that the inputs can be compared; the result is a truth value."""
    alike(inputs)


def plain(inputs: Any) -> Exponents:
    """Check that the inputs have no unit."""
    if alike(inputs) != NONE:
        raise UnitError(f"a number without unit, not {written(alike(inputs))}")
    return NONE


RULES: Final[dict[str, Callable[[Any], Exponents | None]]] = (
    dict.fromkeys(
        ("add", "subtract", "maximum", "minimum", "remainder", "absolute", "negative", "positive"), alike
    )
    | dict.fromkeys(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"), compared)
    | dict.fromkeys(("floor", "ceil", "log", "log1p", "exp", "expm1", "tanh"), plain)
    | {
        "multiply": lambda inputs: joined(inputs, 1),
        "divide": lambda inputs: joined(inputs, -1),
        "sqrt": lambda inputs: scaled(alike(inputs), Fraction(1, 2)),
    }
)
