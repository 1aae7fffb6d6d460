"""Answers that are remembered for records, which are known by their identity."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

R = TypeVar("R")
P = ParamSpec("P")
T = TypeVar("T")

Asked = Callable[Concatenate[R, P], T]
"""A function of a record and of what can be hashed."""


def remembered(most: int, records: int = 1) -> Callable[[Asked[R, P, T]], Asked[R, P, T]]:
    """Let a function of a record, and of what can be hashed, be worked out once for each.

    Records with tables in them cannot be hashed, and comparing two takes longer than many an answer. They
    are kept alive beside the answer, so that their identities stay their own.

    Parameters
    ----------
    most : int
        Answers that are kept; then all are forgotten.
    records : int
        How many of the first arguments are records.

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
        known: dict[tuple[Hashable, ...], tuple[tuple[object, ...], T]] = {}

        @wraps(function)
        def ask(record: R, /, *more: P.args, **named: P.kwargs) -> T:
            also: tuple[object, ...] = more[: records - 1] if records > 1 else ()
            key: tuple[Hashable, ...] = (id(record), *more)
            if also or named:
                key = (id(record), *map(id, also), *more[len(also) :], *named.items())
            if (found := known.get(key)) is None:
                if len(known) >= most:
                    known.clear()
                found = known[key] = ((record, *also), function(record, *more, **named))
            return found[1]

        return ask

    return remembering
