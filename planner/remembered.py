"""Answers that are remembered for a record, which is known by its identity."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

R = TypeVar("R")
P = ParamSpec("P")
T = TypeVar("T")

Asked = Callable[Concatenate[R, P], T]
"""A function of a record and of what can be hashed."""


def remembered(most: int) -> Callable[[Asked[R, P, T]], Asked[R, P, T]]:
    """Let a function of a record, and of what can be hashed, be worked out once for each.

    Records with tables in them cannot be hashed, and comparing two takes longer than many an answer. The
    record is kept alive beside its answer, so that its identity stays its own.

    Parameters
    ----------
    most : int
        Answers that are kept; then all are forgotten.

    Examples
    --------
    >>> @remembered(most=2)
    ... def total(numbers, times):
    ...     print("asked")
    ...     return times * sum(numbers)
    >>> some = [1, 2]
    >>> total(some, 2), total(some, 2)
    asked
    (6, 6)
    """

    def remembering(function: Asked[R, P, T]) -> Asked[R, P, T]:
        known: dict[tuple[Hashable, ...], tuple[R, T]] = {}

        @wraps(function)
        def ask(record: R, /, *more: P.args, **named: P.kwargs) -> T:
            key = (id(record), *more, *named.items())
            if key not in known:
                if len(known) >= most:
                    known.clear()
                known[key] = (record, function(record, *more, **named))
            return known[key][1]

        return ask

    return remembering
