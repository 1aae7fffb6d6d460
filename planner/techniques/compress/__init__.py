"""How exchanges are made smaller, by name."""

from __future__ import annotations

import sys

from planner.errors import InputError, Problem
from planner.registry import find, load_family
from planner.techniques.compress.family import Compression, Packed

COMPRESSIONS = load_family(sys.modules[__name__], Compression)

__all__ = ["COMPRESSIONS", "Compression", "Packed", "read_compression"]


def read_compression(text: str, where: str = "--compress") -> Packed:
    """Return the compression that ``text`` names, such as ``int8`` or ``topk:1%``.

    Raises
    ------
    InputError
        If there is none of that name, or its amount is none.
    """
    name, colon, rest = text.strip().partition(":")
    how = find(COMPRESSIONS, name, where)
    if how.amount is None:
        if colon:
            raise InputError(Problem(where, repr(text), f"{how.name} without an amount", how.name))
        return Packed(how)
    if not colon:
        return Packed(how, how.amount)
    number = rest.strip().removesuffix("%")
    try:
        amount = float(number) / (100.0 if rest.strip().endswith("%") else 1.0)
    except ValueError:
        amount = -1.0
    low, high = how.bounds
    if not low < amount <= high:
        example = Packed(how, how.amount).text
        raise InputError(Problem(where, repr(text), f"an amount above {low:g} and at most {high:g}", example))
    return Packed(how, amount)
