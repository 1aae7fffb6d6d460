"""Which values a trait of a runtime may have, wherever a user writes them."""

from __future__ import annotations

import math
from dataclasses import fields
from functools import cache
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from planner.inputs.workload import DTYPE_BYTES
from planner.runtimes._traits import Traits

TRAITS: Final = tuple(field.name for field in fields(Traits))
"""Names of all traits."""

_MORE_THAN_ZERO: Final = frozenset(
    {
        "attention_share",
        "compute_derate",
        "tp_bandwidth_share",
        "dp_rate_share",
        "memory_spread",
        "cp_slowdown",
        "logit_bytes",
        "loss_chunks",
        "loss_traffic",
        "elementwise_traffic",
    }
)
_SHARES: Final = ("_share", "_exposed", "_window", "_derate")
_LARGEST: Final = 1e15


@cache
def kind_of(name: str) -> type[Any]:
    """Return the type of a trait's value: ``str`` where it is one of some words."""
    kind = get_type_hints(Traits)[name]
    return str if get_origin(kind) is Literal else kind


@cache
def words_of(name: str) -> tuple[str, ...]:
    """Return the words that a trait may be; none where it is a number or a truth value."""
    kind = get_type_hints(Traits)[name]
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(DTYPE_BYTES) if kind is str else ()


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
    if kind_of(name) is bool:
        return "true or false"
    return f"a number {'above' if name in _MORE_THAN_ZERO else 'from'} 0 to {_most(name):g}"


def is_allowed(name: str, value: object) -> bool:
    """Whether a trait may have a value."""
    if words_of(name):
        return value in words_of(name)
    if kind_of(name) is bool:
        return isinstance(value, bool)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    low = value > 0 or (value == 0 and name not in _MORE_THAN_ZERO)
    return low and value <= _most(name) and math.isfinite(value)


def _most(name: str) -> float:
    return 1.0 if name.endswith(_SHARES) else _LARGEST
