"""``planner profile``: microbenchmarks on the local devices, and a hardware profile of what they found."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.options import Format, FormatOption, QuietOption, VerboseOption, text_option
from planner.cli.output import emit_document, emit_rows
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.files import write_whole

with deferred():
    from planner.calibrate.measured import files as measured_files
    from planner.profile import machine as profile_machine

if TYPE_CHECKING:
    from planner.calibrate.measured.files import MeasuredFiles
    from planner.profile.machine import MeasuredMachine
    from planner.profile.session import Tell

LONGEST_MINUTES = 24 * 60.0

HEADINGS = {"mean_error": "error", "held_out_error": "held out", "one_rate_error": "one rate"}


def profile(
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE.yaml", help="Profile to write; curves and raw table beside it."),
    ],
    device: Annotated[
        str, typer.Option("--device", metavar="cpu|cuda|cuda:N", help="What is measured.")
    ] = "cuda",
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="M", help="Time for the benchmarks of one device.")
    ] = 5.0,
    only: Annotated[
        list[str] | None, text_option("BENCH", "Run only this benchmark; repeatable.", "--only")
    ] = None,
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster",
            metavar="NAME",
            help="Whose node and network it has. [default: the accelerator's usual one]",
        ),
    ] = "",
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Start over, ignoring what was measured before.")
    ] = False,
    allow_busy: Annotated[
        bool,
        typer.Option("--allow-busy", help="Measure a device that others use, that is sliced or throttled."),
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="S", help="Seconds to wait for a rank.")
    ] = 60.0,
    output: FormatOption = Format.table,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Measure this machine and write a hardware profile; under torchrun its collectives too."""
    check(out, minutes, timeout)
    raw = measured_files.beside(out, measured_files.RAW)
    request = profile_machine.ProfileRequest(
        device, raw, 60 * minutes, tuple(only or ()), fresh, allow_busy, timeout
    )
    with ProfileProgress(60 * minutes, quiet, verbose) as progress:
        try:
            measured = profile_machine.measure_machine(request, progress.tell)
        except KeyboardInterrupt:
            progress.note(f"\nwhat was measured is kept in {raw}; the same command goes on")
            raise
    if measured is None:
        return
    machine = measured_files.Machine(
        product=measured.device.name,
        memory=measured.memory,
        multiprocessors=float(measured.device.multiprocessors),
        provenance={name: str(text) for name, text in measured.provenance.items()},
        cluster=cluster,
        usable=measured.device.memory,
    )
    files = measured_files.profile_files(out, machine, measured.rows)
    for path, text in files.texts.items():
        write_whole(path, text, force=True)
    for note in (*measured.notes, *files.notes):
        progress.note(f"note: {note}")
    answer(out, raw, measured, files, output)


def check(out: Path, minutes: float, timeout: float) -> None:
    """Refuse options that make no sense, all at once.

    Raises `InputError` with every fault.
    """
    problems = [
        Problem(option, f"{value:g}", f"more than 0 and at most {most:g}")
        for option, value, most in (("--minutes", minutes, LONGEST_MINUTES), ("--timeout", timeout, 86400.0))
        if not (math.isfinite(value) and 0 < value <= most)
    ]
    if out.suffix not in (".yaml", ".yml"):
        problems.append(Problem("--out", repr(str(out)), "a name that ends in .yaml", f"{out.stem}.yaml"))
    if problems:
        raise InputError(problems)


class ProfileProgress:
    """Tells on standard error how far a measurement is: a bar on a terminal, a line for each tenth otherwise.

    Parameters
    ----------
    seconds : float
        Time that the measurement may take. [s]
    quiet, verbose : bool
        Whether nothing is told; whether every point is told on a line of its own.
    """

    def __init__(self, seconds: float, quiet: bool = False, verbose: bool = False) -> None:
        self.seconds, self.tenth = seconds, -1
        self.quiet, self.verbose = quiet, verbose and not quiet
        self.bar: Any = None

    def __enter__(self) -> ProfileProgress:
        """Start the bar where there is a terminal."""
        if sys.stderr.isatty() and not (self.quiet or self.verbose):
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as Bar

            words = TextColumn("{task.fields[what]}")
            self.bar = Bar(TextColumn("measuring"), BarColumn(), words, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task("measuring", total=1.0, what="")
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop the bar."""
        if self.bar is not None:
            self.bar.stop()

    @property
    def tell(self) -> Tell:
        """What a measurement calls after each point."""
        return self._tell

    def _tell(self, count: int, share: float, what: str) -> None:
        left = (1 - share) * self.seconds
        words = f"{count} points, at most {left:.0f} s left, {what}"
        if self.bar is not None:
            self.bar.update(self.task, completed=share, what=words)
        elif self.verbose or int(10 * share) > self.tenth:
            self.tenth = int(10 * share)
            self.note(f"{share:4.0%}: {words}")

    def note(self, line: str) -> None:
        """Write a line, unless quiet."""
        if not self.quiet:
            sys.stderr.write(f"{line}\n")


def answer(out: Path, raw: Path, measured: MeasuredMachine, files: MeasuredFiles, output: Format) -> None:
    """Print the fits, and where everything lies."""
    if output is Format.json:
        document = {
            "schema": "planner/profile/1",
            "profile": str(out),
            "curves": next(str(path) for path in files.texts if path != out),
            "raw": str(raw),
            "provenance": dict(measured.provenance),
            "points": len(measured.rows),
            "notes": [*measured.notes, *files.notes],
            "fits": [as_numbers(row) for row in files.fits],
        }
        emit_document(document)
        return
    legend = f"\n{len(measured.rows)} points in {raw}\nuse it with: --hardware {out}"
    emit_rows(list(files.fits), output, HEADINGS, legend)


def as_numbers(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with its percentages as shares."""
    return {
        key: float(value.removesuffix("%")) / 100 if isinstance(value, str) and value.endswith("%") else value
        for key, value in row.items()
    }
