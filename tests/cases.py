"""Many small cases in one test: each runs, and every one that fails is named.

What pytest does around a test costs 3 ms, several times what most cases take: 18,000 of them were a minute
of processor time. ``every`` stands where ``pytest.mark.parametrize`` would; the cases share one test. Of
pytest's own ``subtests`` each is reported to the process that gathers them: two thirds of a test's cost.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

SHOWN: Final = 10
"""Failures that are shown in full; all are named."""

OWN: Final = {"monkeypatch", "capsys", "capfd", "caplog", "recwarn"}
"""Fixtures that each case would need for itself."""

Cases = dict[str, dict[str, Any]]


def every(
    names: str | Sequence[str],
    values: Iterable[Any],
    ids: Callable[[Any], Any] | Iterable[Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make one test that runs a function with each of some values, to be used as ``parametrize`` is.

    Above another ``every`` it crosses both. Each case has a ``tmp_path`` of its own. Cases may neither be
    none, nor be skipped or marked, nor share another fixture that one could leave changed to the next: such a
    test keeps ``parametrize``.

    Parameters
    ----------
    names : str or sequence of str
        Parameters that are set, as words parted by commas or one by one.
    values : iterable
        A value, a tuple or a ``pytest.param`` for each case.
    ids : callable or iterable, optional
        Gives the name of a case from a value, or has one for each case.

    Raises
    ------
    ValueError
        Where there is no case, or one is marked or has another number of values or names.
    """
    words = [word.strip() for word in names.split(",")] if isinstance(names, str) else list(names)
    rows = [
        ParameterSet.extract_from(value, force_tuple=isinstance(names, str) and len(words) == 1)
        for value in values
    ]
    if not rows or any(row.marks or len(row.values) != len(words) for row in rows):
        raise ValueError(f"no case of {words}, or one that is marked or has not {len(words)} values")
    told = rows if ids is None or callable(ids) else list(ids)
    named = ids if callable(ids) else _word
    cases: Cases = {}
    for place, (row, own) in enumerate(zip(rows, told, strict=True)):
        values_of = dict(zip(words, row.values, strict=True))
        parts = [str(named(value) or f"{word}{place}") for word, value in values_of.items()]
        name = str(row.id or (own if told is not rows else "-".join(parts)))
        cases[f"{name}-{place}" if name in cases else name] = values_of
    return functools.partial(_lumped, cases)


def _word(value: Any) -> str | None:
    """Return how a value is written in a name, if it is short."""
    if value is None or isinstance(value, (str, int, float)):
        return str(value)
    return getattr(value, "__name__", None)


def _lumped(cases: Cases, check: Callable[..., None]) -> Callable[..., None]:
    """Return a test that runs ``check`` with all cases, or with all of each one that it runs already."""
    inner: Cases = getattr(check, "cases", {"": {}})
    check = getattr(check, "check", check)
    crossed = {
        f"{name}-{other}".strip("-"): some | more
        for name, some in inner.items()
        for other, more in cases.items()
    }
    named = next(iter(crossed.values()))
    left = [one for word, one in inspect.signature(check).parameters.items() if word not in named]
    if shared := OWN & {one.name for one in left}:
        raise ValueError(f"{check.__name__}: cases would share {', '.join(sorted(shared))}")

    @functools.wraps(check)
    def test(**fixtures: Any) -> None:
        failed: dict[str, Exception] = {}
        for place, (name, values) in enumerate(crossed.items()):
            if "tmp_path" in fixtures:
                values = values | {"tmp_path": fixtures["tmp_path"] / str(place)}
                values["tmp_path"].mkdir()
            try:
                check(**fixtures | values)
            except pytest.skip.Exception as skipped:
                failed[name] = AssertionError(f"skipped, and none may be: {skipped}")
            except (Exception, pytest.fail.Exception) as error:
                failed[name] = error if isinstance(error, Exception) else AssertionError(str(error))
        if failed:
            for name, one in failed.items():
                one.add_note(f"case {name}")
            told = f"{len(failed)} of {len(crossed)} cases: {', '.join(failed)}"
            raise ExceptionGroup(told, list(failed.values())[:SHOWN])

    test.__signature__ = inspect.Signature(left)  # type: ignore[attr-defined]
    test.cases, test.check = crossed, check  # type: ignore[attr-defined]
    return test
