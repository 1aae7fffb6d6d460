"""``planner tune``: the best few plans tried in turn on the cluster itself, and ranked again."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli.explain import priced, read_saved, request_of
from planner.cli.launch import LauncherOption
from planner.cli.options import ForceOption, Format, OutputOptions, spread
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.dataclasses import asdict, dataclass, replace
from planner.deferred import deferred
from planner.errors import InputError, PlannerError, Problem
from planner.files import write_whole
from planner.printable import as_cell
from planner.question.launched import Launch
from planner.question.reading import Reading
from planner.report.page import Table, significant
from planner.units import GIB

with deferred():
    from planner.cli import calibrate
    from planner.inputs import load_hardware, run_logs
    from planner.question import launch as question_launch
    from planner.report import layout
    from planner.search import optimise

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.report.page import Page
    from planner.report.plan_file import PlanFile

FORMAT: Final = "planner/tune/1"
STATE, LOG, ROWS, SITE = "tune.json", "train.log", "measured.csv", "site.yaml"
"""Files of a tuning: its trials; and of each trial its log; all measured rows, and the calibrated cluster."""

HERE: Final = "torchrun"
"""The launcher whose scripts run to their end where they are started."""

PROCESSOR: Final = "processor"
"""The architecture of a cluster whose devices are processors, as `planner profile` writes it."""

MOST: Final = 20

FAR: Final = 2.0
"""Times as long as estimated, or as short, from which a trial is told so and not in percent."""


MISSED: Final = 0.5
"""Error of a calibrated cluster on its own trials from which nothing is ranked by it. [-]"""


@dataclass(frozen=True)
class Trial:
    """One plan that is tried."""

    folder: str
    plan: str
    """Where its files are, and the plan in short."""
    estimated_s: float
    estimated_gib: float
    """What it should take. [s], [GiB]"""
    state: str = "to run"
    """``to run``, ``measured``, ``out of memory`` or ``failed``."""
    measured_s: float | None = None
    measured_gib: float | None = None
    """What its log says. [s], [GiB]"""
    elsewhere: bool = False
    """Whether it ran on processors, so that its time says nothing of the cluster's accelerators."""


@spread
def tune(
    plan: Annotated[
        Path, typer.Argument(metavar="PLAN", help="A plan file saved by `search` or `estimate`.")
    ],
    shown: OutputOptions,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the trials.")] = Path("tune"),
    top: Annotated[
        str, typer.Option(metavar="K", help="How many plans to try, each with a different mesh.")
    ] = "3",
    run: Annotated[
        bool,
        typer.Option("--run/--dry-run", help="Run the trials here in turn, or only write the scripts."),
    ] = False,
    launcher: LauncherOption = HERE,
    force: ForceOption = False,
) -> None:
    """Run the best few plans for twenty steps each, and rank them by what was measured.

    The scripts are those of `emit --smoke`. A trial that has a log is not run again, so a tuning that was
    stopped resumes, and a script started by hand counts once its output is in DIR/N/train.log. The
    measurements calibrate the cluster (DIR/site.yaml), and the job is searched again on it.
    """
    reading = Reading()
    count = reading.count("--top", top, most=MOST)
    if run and launcher != HERE:
        reading.fault("--run", f"--launcher {launcher}", f"--launcher {HERE}; write others with --dry-run")
    reading.finish()
    saved = read_saved(plan)
    trials = known_trials(out, saved, force) or new_trials(saved, count or 1, out, launcher, force)
    done = list(trials)
    for place, trial in enumerate(trials):
        if run and trial.state == "to run" and not (out / trial.folder / LOG).is_file():
            to_stderr(f"running {out / trial.folder}: {trial.plan}")
            start(out / trial.folder)
        done[place] = read_trial(trial, out / trial.folder, saved)
        keep(out, saved, done)
    again, missed = ranked_again(out, saved, done)
    if shown.output is Format.json:
        emit_document(_document(done, again))
    elif shown.output is Format.csv:
        emit_rows([asdict(one) for one in done], shown.output)
    else:
        emit_page(_page(out, done, again, missed), shown.output)
    if any(one.state in {"failed", "out of memory"} for one in done):
        raise typer.Exit(1)


def job_key(saved: PlanFile) -> list[Any]:
    """Return what a tuning is for: trials of another job are not taken for its own."""
    job = saved.job
    work = {name: str(value) for name, value in job.workload.model_dump().items()}
    return [job.model.name, job.hardware.name, job.gpus, saved.runtime.name, work]


def known_trials(out: Path, saved: PlanFile, force: bool) -> list[Trial]:
    """Return the trials that a folder holds; none where it holds no tuning, or a new one is forced.

    Raises `InputError` if the folder is of another job, or its file is none.
    """
    path = out / STATE
    if force or not path.is_file():
        return []
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        trials = [Trial(**one) for one in content["trials"]]
        same = content["format"] == FORMAT and content["job"] == job_key(saved)
    except (OSError, ValueError, KeyError, TypeError) as error:
        found = f"{type(error).__name__}"
        raise InputError(Problem(str(path), found, "a tuning's own file; --force starts anew")) from None
    if not same:
        raise InputError(Problem("--out", f"{out}, of another job", "another folder; --force starts anew"))
    return trials


def new_trials(saved: PlanFile, count: int, out: Path, launcher: str, force: bool) -> list[Trial]:
    """Search the job, write the scripts of its best plans, the saved one first, and return their trials."""
    own = priced(saved, saved.plan.slug)
    others = optimise.search(replace(request_of(saved), top=count)).plans if count > 1 else ()
    found = [own, *(one for one in others if one.plan != own.plan)][:count]
    trials = []
    for number, answer in enumerate(found, 1):
        folder = f"{number}-{answer.plan.slug}"
        write(answer, saved, out / folder, launcher, force)
        trials.append(Trial(folder, layout.layout(answer.plan), answer.step, _gib(answer.peak)))
    keep(out, saved, trials)
    return trials


def write(answer: Estimate, saved: PlanFile, folder: Path, launcher: str, force: bool) -> None:
    """Write the files that try a plan."""
    launch = Launch(folder, None, launcher, None, force, smoke=True)
    question_launch.write_plan(
        answer, saved.names, question_launch.wanted_target(launch, answer.runtime), launch
    )


def start(folder: Path) -> None:
    """Run a trial to its end; its output is its log once it has ended, and goes to standard error."""
    part = folder / f"{LOG}.part"
    command, tried = ["bash", "train.sh"], os.environ | {"SMOKE": "1"}
    merged: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with (
        part.open("w", encoding="utf-8", buffering=1) as log,
        subprocess.Popen(command, cwd=folder, env=tried, errors="replace", **merged) as process,
    ):
        try:
            for line in process.stdout or ():
                log.write(line)
                sys.stderr.write(line)
        except BaseException:
            process.terminate()
            raise
    part.replace(folder / LOG)


def read_trial(trial: Trial, folder: Path, saved: PlanFile) -> Trial:
    """Return a trial with what its log says, where there is one."""
    if not (folder / LOG).is_file():
        return trial
    try:
        log = run_logs.read_run_log(folder / LOG)
    except InputError:
        return replace(trial, state="failed")
    work = saved.job.workload
    seconds = log.seconds(work.global_batch, work.seq_len, saved.job.gpus)
    peak = None if log.peak is None else _gib(log.peak)
    if log.out_of_memory:
        return replace(trial, state="out of memory", measured_gib=peak)
    state = "failed" if seconds is None else "measured"
    elsewhere = log.on_processors and saved.job.hardware.pool.accelerator.arch != PROCESSOR
    return replace(trial, state=state, measured_s=seconds, measured_gib=peak, elsewhere=elsewhere)


def _gib(nbytes: float) -> float:
    return nbytes / GIB


def keep(out: Path, saved: PlanFile, trials: Sequence[Trial]) -> None:
    """Write what is known, and the measured rows as one table."""
    content = {"format": FORMAT, "job": job_key(saved), "trials": [asdict(one) for one in trials]}
    write_whole(out / STATE, json.dumps(content, indent=2) + "\n", True, "--out")
    rows = [dict(_row(out / one.folder, one)) for one in trials if _counts(one)]
    if rows:
        text = io.StringIO()
        table = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
        write_whole(out / ROWS, text.getvalue(), True, "--out")


def _counts(trial: Trial) -> bool:
    """Whether a trial's time is one of the cluster's own."""
    return trial.measured_s is not None and not trial.elsewhere


def _row(folder: Path, trial: Trial) -> Mapping[str, Any]:
    """Return the run table's row of a trial: as its folder has it, with what was measured."""
    with (folder / ROWS).open(encoding="utf-8", newline="") as stream:
        row = next(csv.DictReader(stream))
    peak = "" if trial.measured_gib is None else f"{trial.measured_gib:.3f}"
    return row | {"step_time_s": f"{trial.measured_s:.6g}", "peak_mem_gib": peak}


def ranked_again(
    out: Path, saved: PlanFile, trials: Sequence[Trial]
) -> tuple[tuple[Estimate, ...], float | None]:
    """Return the best plans on the cluster as the trials calibrate it, and by how much that misses them.

    There are none where they cannot calibrate it, or where it misses them by `MISSED` all the same: prices so
    far from what was measured rank nothing.
    """
    if not any(_counts(one) for one in trials):
        return (), None
    site = out / SITE
    try:
        with _quiet_output():
            calibrate.calibrate(
                runs=out / ROWS, hardware=saved.names.hardware, out=site, factors="", force=True, quiet=True
            )
        cluster = load_hardware.load_hardware(str(site))
    except PlannerError as error:
        to_stderr(f"note: not calibrated: {error}")
        return (), None
    fitted = cluster.pool.calibration
    missed = None if fitted is None or fitted.missed is None else float(fitted.missed)
    if missed is not None and missed > MISSED:
        return (), missed
    return optimise.search(replace(request_of(saved), clusters=(cluster,), top=3)).plans, missed


def _quiet_output() -> Any:
    return contextlib.redirect_stdout(io.StringIO())


def _page(out: Path, trials: Sequence[Trial], again: Sequence[Estimate], missed: float | None) -> Page:
    """Return the trials, the calibrated ranking, and what to do next."""
    page: Page = [Table(tuple(_told(number, one) for number, one in enumerate(trials, 1)))]
    measured = [one for one in trials if _counts(one)]
    waiting = [one for one in trials if one.state == "to run"]
    if measured:
        best = min(measured, key=lambda one: one.measured_s or 0.0)
        page.append(f"Fastest: {best.plan}. Start the training: SMOKE= bash {out / best.folder / 'train.sh'}")
    if any(one.elsewhere for one in trials):
        page.append(
            "The trials ran on CPUs, not on the accelerators that were planned for. They show that the "
            "scripts start and train; their times say nothing about the plans, and nothing was calibrated."
        )
    if missed is not None and missed > MISSED:
        page.append(
            f"Not ranked again: calibrated by these runs, prices still miss them by {missed:.0%}. Trust the "
            "order that was measured; the cluster, the model or the batch is likely another than the plan's."
        )
    if again:
        left = "" if missed is None else f", which prices now miss by {missed:.0%}"
        head = f"Ranked again, calibrated by these runs{left} ({out / SITE}):"
        page.append("\n".join([head, *_ranking(again)]))
    if waiting:
        page.append(
            f"{len(waiting)} to run: --run runs them here in turn. Or run each script yourself, save its "
            f"output as {out / waiting[0].folder / LOG}, and repeat this command."
        )
    return page


def _ranking(plans: Sequence[Estimate]) -> Iterator[str]:
    for number, answer in enumerate(plans, 1):
        yield f"  {number}  {layout.layout(answer.plan)}  {significant(answer.step)} s"


def _off(trial: Trial) -> str:
    """Return how far a trial is from its estimate: in percent, or in times where it is far."""
    if trial.measured_s is None or trial.elsewhere:
        return "-"
    times = trial.measured_s / trial.estimated_s
    return f"{times - 1:+.0%}" if 1 / FAR < times < FAR else f"{significant(times, 2)}x"


def _told(number: int, trial: Trial) -> dict[str, str]:
    return {
        "#": str(number),
        "plan": trial.plan,
        "estimated s": significant(trial.estimated_s),
        "measured s": significant(trial.measured_s),
        "off": _off(trial),
        "estimated GiB": f"{trial.estimated_gib:.1f}",
        "measured GiB": significant(trial.measured_gib, 3),
        "state": trial.state,
    }


def _document(trials: Sequence[Trial], again: Sequence[Estimate]) -> dict[str, Any]:
    return {
        "schema": FORMAT,
        "trials": [asdict(one) for one in trials],
        "ranked_again": [{"plan": one.plan.as_dict(), "step_time_s": one.step} for one in again],
    }
