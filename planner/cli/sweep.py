"""``planner sweep``: the searches of a grid, over processes or a Ray cluster, resumed where they stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from planner.cli.options import ForceOption, Format, OutputOptions, spread, text_option
from planner.cli.output import as_csv, emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.cli.versions import version_notes
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.files import write_whole
from planner.question.reading import Reading
from planner.units import parse, show

with deferred():
    from planner.cli import journal as cli_journal
    from planner.cli import sweep_cases
    from planner.inputs import load_hardware
    from planner.question import job
    from planner.sweep import as_json as sweep_as_json
    from planner.sweep import bisect, flat, front, page, ranges, run, solve
    from planner.sweep import grid as sweep_grid
    from planner.sweep import row as sweep_row

if TYPE_CHECKING:
    from planner.sweep.grid import Grid
    from planner.sweep.page import Asked
    from planner.sweep.row import Row, SweepOutcome
    from planner.sweep.run import Execute, Sweep, SweepCase, Work

INTERNAL: Final = 70
READING: Final = 0.02
"""Share of the bar that reading the grid takes."""


@spread
def sweep(
    grid: Annotated[
        Path,
        typer.Argument(metavar="GRID.yaml", help="Options of `planner search`, each one value or a list."),
    ],
    shown: OutputOptions,
    out: Annotated[
        Path | None,
        text_option(
            "FILE", "Results, .jsonl or .csv. [default: the grid's name with .jsonl, in this folder]"
        ),
    ] = None,
    jobs: Annotated[str | None, text_option("N", "Searches to run at once. [default: one per core]")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Skip cases whose results are there.")
    ] = True,
    executor: Annotated[
        str | None, text_option("NAME", "Where it runs: local or ray. [default: local]")
    ] = None,
    ray: Annotated[str | None, text_option("ADDRESS", "Run on this Ray cluster: auto or HOST:PORT.")] = None,
    finish_in: Annotated[
        str | None, text_option("TIME", "Report the fewest GPUs that finish in this time: 30d.")
    ] = None,
    longest_sequence: Annotated[
        bool, typer.Option("--longest-sequence", help="Report the longest sequence that fits.")
    ] = False,
    smallest_cluster: Annotated[
        bool, typer.Option("--smallest-cluster", help="Report the fewest GPUs that fit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
    force: ForceOption = False,
) -> None:
    """Search every case of a grid of models, clusters, GPU counts, lengths and batches.

    Results are saved as they come; the same command resumes a sweep that was stopped. Exit code 1 means that
    nothing fits anywhere, or that a question has no answer.
    """
    plan = sweep_grid.load_grid(grid)
    reading = Reading()
    asked = _asked(plan, finish_in, longest_sequence, smallest_cluster, reading)
    halved = _halved(plan, asked, reading)
    execute = _Execute(executor, ray, jobs, reading)
    reading.finish()
    plan = _listed(plan, asked, grid)
    lines, table = _files(grid, out, resume, force)
    with Progress(shown.quiet, shown.verbose) as progress:
        bar = _Bar(progress, plan.size)
        cases = sweep_cases.read_grid(plan, str(grid), bar.reading)
        for line in version_notes(
            cluster for case in cases if case.request for cluster in case.request.clusters
        ):
            progress.tell(f"note: {line}")
        with cli_journal.Journal(lines, afresh=not resume) as journal:
            known = journal.rows()
            _tell_known(cases, known, lines, progress)
            result = _searched(cases, known, execute, journal.append, bar.searching, halved)
    if table is not None:
        _write_csv(result, table)
    _emit(result, plan, asked, Format.json if as_json else shown.output, str(table or lines))
    raise typer.Exit(_exit_code(result, plan, asked))


def _searched(
    cases: list[SweepCase],
    known: Mapping[str, Row],
    execute: Execute,
    keep: Callable[[Row], None],
    tell: Callable[[int, int], None],
    halved: str | None,
) -> Sweep:
    """Search every case, or those that tell where fitting ends on the axis ``halved``."""
    if halved is None:
        return run.run(cases, known, execute, keep, tell)
    return bisect.bisected(bisect.ladders_of(cases, halved), known, execute, keep, tell)


class _Execute:
    """Searches where the options say; their faults are noted when it is made."""

    def __init__(self, executor: str | None, address: str | None, jobs: str | None, reading: Reading) -> None:
        from planner.sweep.executors import ExecutorSettings, executors

        name = executor or ("local" if address is None else "ray")
        self.entry = reading.named("--executor", name, executors())
        if address is not None and self.entry is not None and self.entry.name != "ray":
            reading.fault("--ray", repr(address), f"no address with --executor {self.entry.name}")
        self.settings = ExecutorSettings(reading.count("--jobs", jobs, most=4096), address)

    def __call__(self, work: Work) -> Iterator[tuple[str, SweepOutcome]]:
        if self.entry is None:
            raise AssertionError("a fault was not told")
        return self.entry.run(work, solve.solve, self.settings)


class _Bar:
    """What a progress bar says of a sweep: cases done, and the time left at the pace so far."""

    def __init__(self, progress: Progress, cases: int) -> None:
        self.progress = progress
        self.cases = cases
        self.started = time.monotonic()

    def reading(self, number: int) -> None:
        """Tell that so many cases are read."""
        self.progress(READING * number / self.cases, f"reading case {number + 1} of {self.cases}")

    def searching(self, done: int, total: int) -> None:
        """Tell that so many of ``total`` cases are searched."""
        if done == 0:
            self.started = time.monotonic()
        left = (time.monotonic() - self.started) / done * (total - done) if done else 0.0
        words = f", {show(round(left), 's')} left" if 0 < done < total else ""
        share = done / total if total else 1.0
        self.progress(READING + (1 - READING) * share, f"{done} of {total} cases searched{words}")


def _asked(plan: Grid, finish_in: str | None, longest: bool, smallest: bool, reading: Reading) -> Asked:
    """Return the questions that are asked, with their limits; noted where the grid lacks what one needs."""
    from planner.sweep.questions import questions

    limits = {"longest-sequence": 0.0 if longest else None, "smallest-cluster": 0.0 if smallest else None}
    if finish_in is not None:
        try:
            limits["finish-in"] = parse(finish_in, "s")
        except ValueError as error:
            reading.fault("--finish-in", repr(finish_in), f"a time such as 30d ({error})")
    asked = {entry: limit for name, entry in questions().items() if (limit := limits.get(name)) is not None}
    for question in asked:
        for axis in question.needs:
            if axis not in plan.axes:
                reading.fault(f"--{question.name}", f"no {axis} in the grid", f"the key {axis} there")
    return asked


def _halved(plan: Grid, asked: Asked, reading: Reading) -> str | None:
    """Return the axis whose range is searched by halving it; it lets no other question be answered."""
    halving = next((entry for entry in asked if entry.halves and ranges.has_range(plan, entry.axis)), None)
    if halving is None:
        return None
    for other in asked:
        if other is not halving:
            found = f"a range of {halving.axis}, of which --{halving.name} searches a few values"
            reading.fault(f"--{other.name}", found, f"one question, or a list of {halving.axis}")
    return halving.axis


def _listed(plan: Grid, asked: Asked, grid: Path) -> Grid:
    """Return the grid with the ranges that questions solve for as lists."""
    for question in asked:
        if ranges.has_range(plan, question.axis):
            plan = ranges.without_ranges(plan, question.axis, question.between or _counts_of(plan))
    sweep_grid.check_size(plan, grid)
    return plan


def _counts_of(plan: Grid) -> Callable[[int, int], Sequence[int]]:
    """Return what a range of accelerators stands for on the clusters of a grid."""
    pools = []
    for name in plan.hardware:
        try:
            pools.append(load_hardware.load_hardware(str(name)).pool)
        except InputError:
            continue
    node = min((pool.gpus_per_node for pool in pools), default=1)
    most = max((pool.max_gpus for pool in pools), default=float("inf"))
    return lambda low, high: job.range_counts(low, int(min(high, max(low, most))), node)


def _files(grid: Path, out: Path | None, resume: bool, force: bool) -> tuple[Path, Path | None]:
    """Return the file of JSON Lines, and the table beside it where one is asked for.

    Raises `InputError` if the name says neither, or a file that is to be written anew exists.
    """
    out = out or Path(grid.with_suffix(".jsonl").name)
    if out.suffix not in (".jsonl", ".csv"):
        expected = "a name that ends in .jsonl or .csv"
        raise InputError(Problem("--out", str(out), expected, f"{out.stem}.jsonl"))
    lines, table = out.with_suffix(".jsonl"), out if out.suffix == ".csv" else None
    if not resume and lines.exists() and not force:
        raise InputError(Problem("--no-resume", str(lines), "a file that does not exist yet, or --force"))
    if table is not None and table.exists() and not lines.exists() and not force:
        raise InputError(Problem("--out", str(table), "a file that does not exist yet, or --force"))
    return lines, table


def _tell_known(cases: list[SweepCase], known: Mapping[str, Row], lines: Path, progress: Progress) -> None:
    there = sum(case.key in known and known[case.key].outcome.status != sweep_row.FAILED for case in cases)
    if there:
        progress.tell(f"{there} of {len(cases)} cases are in {lines} and are skipped")


def _write_csv(result: Sweep, table: Path) -> None:
    write_whole(table, as_csv(flat.flat_rows(result.rows)), force=True)


def _emit(result: Sweep, plan: Grid, asked: Asked, output: Format, out: str) -> None:
    """Write the answer in the format asked for."""
    if output is Format.json:
        emit_document(sweep_as_json.sweep_document(result, plan.varying, asked, out))
    elif output is Format.csv:
        emit_rows(flat.flat_rows(result.rows), output)
    else:
        emit_page([*page.sweep_page(result, plan.varying, asked), f"Every case: {out}"], output)


def _exit_code(result: Sweep, plan: Grid, asked: Asked) -> int:
    """Return 70 where a search failed, 1 where nothing fits or a question has no answer, else 0."""
    if any(row.outcome.status == sweep_row.FAILED for row in result.rows):
        return INTERNAL
    answered = all(
        any(reply[question.axis] is not None for reply in question.replies(result.rows, plan.varying, limit))
        for question, limit in asked.items()
    )
    return 0 if answered and front.fitting(result.rows) else 1
