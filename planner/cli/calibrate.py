"""``planner calibrate``: what a site reaches, fitted to the user's own runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from planner.calibrate.runs.blanks import blanks_told
from planner.cli.calibrate_text import page_of
from planner.cli.options import ForceOption, Format, FormatOption, QuietOption, VerboseOption
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.files import check_place, write_whole
from planner.inputs.bounded import table_lines

with deferred():
    from planner.calibrate.runs import catalogue
    from planner.calibrate.runs import table as runs_table
    from planner.calibrate.sites import file, fit
    from planner.calibrate.sites import runs as sites_runs
    from planner.inputs import load_hardware


def calibrate(
    runs: Annotated[
        Path, typer.Argument(metavar="RUNS.csv", help="A CSV file of measured runs, or - for standard input.")
    ],
    hardware: Annotated[
        str, typer.Option("--hardware", metavar="NAME", help="The cluster that the runs were made on.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.yaml", help="The profile to write.")],
    factors: Annotated[
        str,
        typer.Option(
            "--factors",
            metavar="NAME,...",
            help="What to fit: compute, network, scale-up. [default: as many as the runs support]",
        ),
    ] = "",
    force: ForceOption = False,
    output: FormatOption = Format.table,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Fit a cluster's achieved rates to runs made on it, and write a profile for --hardware."""
    profile = load_hardware.load_hardware(hardware, "--hardware")
    if len(profile.pools) > 1:
        raise InputError(Problem("--hardware", f"{len(profile.pools)} pools", "a cluster of one pool"))
    check_place(out, force, "--out")
    name = "standard input" if str(runs) == "-" else runs.name
    asked = [word.strip().lower() for word in factors.split(",") if word.strip()]
    with Progress(quiet, verbose) as progress, table_lines(runs) as lines:
        table = runs_table.read_runs(lines, name)
        for warning in table.warnings:
            progress.tell(f"note: {warning}")
        progress(0.0, f"pricing the runs of {name}")
        site = sites_runs.site_runs(table.rows, catalogue.shipped_catalogue(), profile)
        if blanks := blanks_told(table.blanks):
            progress.tell(f"note: {name}: {blanks}")
        progress(0.0, f"fitting to {len(site.timed)} timed runs")
        result = fit.fit_site(site, profile, asked)
    write_whole(out, file.cluster_yaml(file.base_file(hardware, profile), out.stem, result, name), force)
    load_hardware.load_hardware(str(out), "--out")
    document: Any = file.as_json(result, profile, name, str(out))
    for text in document["warnings"]:
        progress.tell(f"warning: {text}")
    for skip in document["skipped"]:
        progress.tell(f"note: {skip['id']} is not used: {skip['reason']}")
    _answer(document, output)


def _answer(document: Any, output: Format) -> None:
    if output is Format.json:
        emit_document(document)
    elif output is Format.csv:
        emit_rows(document["per_row"], output)
    else:
        emit_page(page_of(document), output)
