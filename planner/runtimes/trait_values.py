"""Which values a trait of a runtime may have, wherever a user writes them."""

from __future__ import annotations

import math

from planner.runtimes.traits import TRAITS


def words_of(name: str) -> tuple[str, ...]:
    """Return the words that a trait may be; none where it is a number or a truth value."""
    return TRAITS[name].words


def expected(name: str) -> str:
    """Return in words what a trait may be.

    Examples
    --------
    >>> expected("compute_derate"), expected("parameter_dtype")
    ('a number above 0 to 1', 'one of fp32, bf16, fp16, fp8')
    >>> expected("low_bit_head")
    'one of nothing, mxfp8'
    """
    if words_of(name):
        return f"one of {', '.join(word or 'nothing' for word in words_of(name))}"
    if TRAITS[name].kind is bool:
        return "true or false"
    trait = TRAITS[name]
    return f"a number {'above' if trait.above_zero else 'from'} {trait.least:g} to {trait.up_to:g}"


def is_allowed(name: str, value: object) -> bool:
    """Whether a trait may have a value."""
    if words_of(name):
        return value in words_of(name)
    if TRAITS[name].kind is bool:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    trait = TRAITS[name]
    low = value > trait.least or (value == trait.least and not trait.above_zero)
    return low and value <= trait.up_to and math.isfinite(value)
