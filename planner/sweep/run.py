"""The driver: what is known is taken, the rest is searched, each row is kept as soon as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from planner.dataclasses import dataclass
from planner.search.request import SearchRequest
from planner.sweep.grid import Options
from planner.sweep.row import FAILED, Row, SweepOutcome

Work = Sequence[tuple[str, SearchRequest]]
"""Keys and requests of the cases to search."""
Execute = Callable[[Work], Iterator[tuple[str, SweepOutcome]]]
"""Searches all of them somewhere, and yields each outcome with its key as it is ready, in any order."""


@dataclass(frozen=True)
class SweepCase:
    """One cell of the grid: a request, or the row that says why there is none."""

    options: Options
    """What the grid says."""
    key: str
    """Digest of everything that the outcome depends on."""
    request: SearchRequest | None
    """What is searched."""
    refused: SweepOutcome | None = None
    """Why nothing can be."""


@dataclass(frozen=True)
class Sweep:
    """All rows of a sweep, in the order of the grid."""

    rows: tuple[Row, ...]
    """One for each case."""
    skipped: int
    """Cases whose outcome was there before."""


def run(
    cases: Sequence[SweepCase],
    known: Mapping[str, Row],
    execute: Execute,
    keep: Callable[[Row], None],
    tell: Callable[[int, int], None],
) -> Sweep:
    """Search the cases that are not known.

    Parameters
    ----------
    cases : sequence of SweepCase
        The grid.
    known : mapping
        Rows that are there, by key; one that failed is searched again.
    execute : callable
        Where searches run.
    keep : callable
        Told each new row at once.
    tell : callable
        Told how many searches are done, and of how many.

    Returns
    -------
    Sweep
        All rows, in the order of the grid whatever the order in which they were ready.
    """
    found = {
        case.key: known[case.key].outcome
        for case in cases
        if case.key in known and known[case.key].outcome.status != FAILED
    }
    skipped = sum(case.key in found for case in cases)
    first = {case.key: case for case in reversed(cases)}
    for case in cases:
        if case.refused is not None and case.key not in found:
            found[case.key] = case.refused
            keep(Row(case.key, case.options, case.refused))
    work = [
        (key, case.request)
        for key, case in reversed(first.items())
        if key not in found and case.request is not None
    ]
    tell(0, len(work))
    for done, (key, outcome) in enumerate(execute(work) if work else (), 1):
        found[key] = outcome
        keep(Row(key, first[key].options, outcome))
        tell(done, len(work))
    return Sweep(tuple(Row(case.key, case.options, found[case.key]) for case in cases), skipped)
