"""Units at the door: text with a unit becomes a float in base units, and back.

Inside the planner everything is float64 bytes, seconds, FLOP, bytes/s, FLOP/s, watts and dollars.
This is the only file that knows what a giga is.
"""

from __future__ import annotations

import math
import re
from typing import Final

KB: Final = 1e3
GB: Final = 1e9
TB: Final = 1e12
KIB: Final = 2.0**10
MIB: Final = 2.0**20
GIB: Final = 2.0**30
TFLOP: Final = 1e12
MICROSECOND: Final = 1e-6
HOUR: Final = 3600.0
DAY: Final = 86400.0

_DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}

_BYTES = {f"{prefix}B": scale for prefix, scale in (_DECIMAL | _BINARY).items()}
_BITS = {f"{prefix}bit": scale / 8 for prefix, scale in _DECIMAL.items()}

DIMENSIONS: Final[dict[str, dict[str, float]]] = {
    "byte": _BYTES,
    "byte/s": {f"{unit}/s": scale for unit, scale in (_BYTES | _BITS).items()},
    "FLOP/s": {f"{prefix}FLOP/s": scale for prefix, scale in _DECIMAL.items()},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60.0, "h": HOUR, "d": DAY},
    "W": {"W": 1.0, "kW": 1e3, "MW": 1e6},
    "USD/h": {"USD/h": 1.0},
    "-": {"": 1.0, "%": 0.01},
}
"""Dimension to accepted units, each with its size in the base unit."""

_QUANTITY = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-z%/]*)\s*")


_GROUPED = re.compile(r"[1-9]\d{0,2}(?:[,_]\d{3})+(?![\d,_])")


def ungrouped(text: str) -> str:
    """Return a number without the signs that group its thousands; other commas stay where they are.

    Examples
    --------
    >>> ungrouped("16,384"), ungrouped("1_000_000 GiB"), ungrouped("16,24,32"), ungrouped("1,5T")
    ('16384', '1000000 GiB', '16,24,32', '1,5T')
    """
    grouped = _GROUPED.match(text.strip())
    if grouped is None:
        return text
    return re.sub("[,_]", "", grouped[0]) + text.strip()[grouped.end() :]


def parse(text: object, dimension: str) -> float:
    """Return ``text`` such as ``"3.35 TB/s"`` as a float in the base unit of ``dimension``.

    Parameters
    ----------
    text : object
        A number with its unit; a bare number only where the dimension is ``"-"``.
    dimension : str
        A key of `DIMENSIONS`, which is also the base unit of the result.

    Raises
    ------
    ValueError
        If the text is no finite number, or its unit is missing or of another dimension.

    Examples
    --------
    >>> parse("400 Gbit/s", "byte/s")
    50000000000.0
    >>> parse("80 GiB", "byte") / GIB
    80.0
    """
    units = DIMENSIONS[dimension]
    accepted = ", ".join(unit or "a bare number" for unit in units)
    match = _QUANTITY.fullmatch(str(text)) if not isinstance(text, bool) else None
    if match is None:
        raise ValueError(f"not a number with a unit ({accepted})")
    number, unit = float(match[1]), match[2]
    if unit not in units:
        raise ValueError(f"{f'unit {unit!r}' if unit else 'no unit'}; accepted: {accepted}")
    value = number * units[unit]
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


def show(value: float, dimension: str) -> str:
    """Return ``value`` in the unit of ``dimension`` that reads best, with three digits.

    Examples
    --------
    >>> show(80 * GIB, "byte"), show(0.00042, "s"), show(989e12, "FLOP/s")
    ('80 GiB', '420 us', '989 TFLOP/s')
    """
    if not math.isfinite(value):
        return str(value)
    if dimension == "byte":
        units = {"B": 1.0} | {f"{prefix}B": scale for prefix, scale in _BINARY.items()}
    else:
        known = DIMENSIONS[dimension].items()
        units = {unit: scale for unit, scale in known if "bit" not in unit and "i" not in unit}
    fitting = [unit for unit, scale in units.items() if scale <= abs(value)]
    unit = max(fitting, key=units.__getitem__) if fitting else min(units, key=units.__getitem__)
    return f"{value / units[unit]:.3g} {unit}".strip()


def percent(share: float | None, digits: int = 1, signed: bool = False) -> str:
    """Return a share as a percentage, a dash where it is unknown.

    Examples
    --------
    >>> percent(0.0312), percent(0.5, 0), percent(-0.2, signed=True), percent(None)
    ('3.1%', '50%', '-20.0%', '-')
    """
    if share is None:
        return "-"
    return f"{100 * share:{'+' if signed else ''}.{digits}f}%"


def rounded(share: float) -> str:
    """Return a share as a percentage of two digits, for what is itself uncertain.

    Examples
    --------
    >>> rounded(0.2287), rounded(0.0871), rounded(0.019), rounded(0.0003), rounded(1.52)
    ('23%', '8.7%', '1.9%', '0.03%', '152%')
    """
    return f"{float(f'{100 * share:.2g}') if share < 1 else round(100 * share):g}%"


MOST_DIGITS: Final = 18
"""Digits of a whole number that is read: no count, length or number of bytes has more. [-]"""


def is_whole(text: str) -> bool:
    """Whether a text is a whole number in decimal digits that ``int`` reads.

    ``str.isdigit`` takes superscripts too, which ``int`` does not, and nor does ``int`` thousands of digits.

    Examples
    --------
    >>> is_whole("12"), is_whole("²"), is_whole("-1"), is_whole("9" * 5000)
    (True, False, False, False)
    """
    return text.isdecimal() and len(text) <= MOST_DIGITS
