"""A sweep that searches only what tells where fitting ends, by halving the values of one axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from planner.sweep.row import FITS, Row
from planner.sweep.run import Execute, Sweep, SweepCase, run
from planner.units import ungrouped


def ladders_of(cases: Sequence[SweepCase], axis: str) -> list[list[SweepCase]]:
    """Return the cases of each setting of the other axes, by ascending numbers of ``axis``."""
    names = [name for name in (cases[0].options if cases else ()) if name != axis]
    rungs = sorted(cases, key=lambda case: int(ungrouped(str(case.options[axis]))))
    settings: dict[tuple[str | None, ...], list[SweepCase]] = {
        tuple(case.options[name] for name in names): [] for case in cases
    }
    for case in rungs:
        settings[tuple(case.options[name] for name in names)].append(case)
    return list(settings.values())


def bisected(
    ladders: Sequence[Sequence[SweepCase]],
    known: Mapping[str, Row],
    execute: Execute,
    keep: Callable[[Row], None],
    tell: Callable[[int, int], None],
) -> Sweep:
    """Search a few cases of each ladder: where a rung fits all below are taken to fit, else none above.

    Parameters
    ----------
    ladders : sequence of sequences of SweepCase
        The cases of each setting, ascending.
    known, execute, keep : mapping, callable, callable
        As `run` takes them.
    tell : callable
        Told how many searches are done, and of how many at most.

    Returns
    -------
    Sweep
        The rows that were searched or known, ladder by ladder, ascending.
    """
    rows: dict[str, Row] = {}
    skipped = done = 0
    ends = [(-1, len(ladder)) for ladder in ladders]
    most = sum(len(ladder).bit_length() for ladder in ladders)
    while probes := {n: (low + high) // 2 for n, (low, high) in enumerate(ends) if high - low > 1}:
        cases = [ladders[n][middle] for n, middle in probes.items()]
        tell(done, most)
        sweep = run(cases, {**known, **rows}, execute, keep, _silent)
        skipped += sum(case.key in known and case.key not in rows for case in cases)
        done += len(cases)
        rows |= {row.key: row for row in sweep.rows}
        for (n, middle), row in zip(probes.items(), sweep.rows, strict=True):
            fits = row.outcome.status == FITS
            ends[n] = (middle, ends[n][1]) if fits else (ends[n][0], middle)
    tell(most, most)
    searched = (case for ladder in ladders for case in ladder if case.key in rows)
    return Sweep(tuple(Row(case.key, case.options, rows[case.key].outcome) for case in searched), skipped)


def _silent(_done: int, _total: int) -> None:
    """Tell nothing: a round is short."""
