"""How exchanges are made smaller, by name."""

from __future__ import annotations

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.registry import find, load_family
from planner.techniques.compress.family import Compression, Packed
from planner.techniques.feedback import FEEDBACKS

COMPRESSIONS = load_family(__name__, Compression)

__all__ = ["COMPRESSIONS", "Compression", "Packed", "read_compression"]


def read_compression(text: str, where: str = "--compress") -> Packed:
    """Return the compression that ``text`` names, such as ``int8``, ``topk:1%`` or ``int4+econtrol``.

    Raises
    ------
    InputError
        If there is none of that name, or its amount is none.
    """
    text, plus, kept = text.strip().partition("+")
    packed = _without_feedback(text, where)
    if not plus:
        return packed
    feedback = find(FEEDBACKS, kept, where)
    if packed.how.name == "none" and feedback.name != "none":
        raise InputError(Problem(where, f"none+{kept}", "none alone: all is sent", "none"))
    return replace(packed, asked=feedback)


def _without_feedback(text: str, where: str) -> Packed:
    """Return the compression before a plus sign."""
    name, colon, rest = text.partition(":")
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
