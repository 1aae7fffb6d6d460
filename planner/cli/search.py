"""``planner search``: plans ranked, with baselines and an account of what was removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.config import KEYS
from planner.cli.launch import LauncherOption, SmokeOption, TargetOption, write_best
from planner.cli.near import NearJobOptions, NearOption, recipe_of
from planner.cli.notes import file_notes, job_notes, method_notes
from planner.cli.options import (
    ForceOption,
    Format,
    JobOptions,
    OutputOptions,
    PlanOptions,
    Text,
    Texts,
    option_of,
    spread,
    text_option,
)
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.printable import to_stderr
from planner.cli.progress import Progress
from planner.cli.search_goodput import FailureOptions, read_conditions, search_goodput
from planner.cli.sites import SiteOptions, SitesAsked, is_over_sites, search_over_sites
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.fields import FIELDS
from planner.files import check_place
from planner.question.launched import Launch
from planner.question.reading import Reading

with deferred():
    from planner.cli import flags as runner_flags
    from planner.cli import reach, tables
    from planner.question import job as question_job
    from planner.question import launch as question_launch
    from planner.question import question as questions
    from planner.report import as_json, flat, made_order, search_answer, search_page
    from planner.report import front as report_front
    from planner.report import played as report_played
    from planner.search import beyond, optimise

if TYPE_CHECKING:
    from planner.cli.near import NearAnswer
    from planner.cost.estimate import Estimate
    from planner.question.job import Files
    from planner.question.question import Question
    from planner.report.made_order import MadeOrder
    from planner.search.request import SearchRequest
    from planner.search.result import SearchResult


@spread
def search(
    context: typer.Context,
    job: NearJobOptions,
    plan: PlanOptions,
    shown: OutputOptions,
    failing: FailureOptions,
    sites: SiteOptions,
    near: NearOption = None,
    objective: Annotated[str, option_of(FIELDS["objective"], shown=True)] = KEYS["objective"].default,
    top: Annotated[str, option_of(FIELDS["top"], shown=True)] = KEYS["top"].default,
    oom_risk: Annotated[str, option_of(FIELDS["oom_risk"], shown=True)] = KEYS["oom_risk"].default,
    uniform: Annotated[bool, typer.Option("--uniform", help=FIELDS["uniform"].help)] = False,
    allow: Annotated[Texts, option_of(FIELDS["allow"])] = None,
    slowdown: Annotated[Text, option_of(FIELDS["slowdown"])] = None,
    synthesize: Annotated[
        str | None,
        text_option(
            "SECONDS",
            "Build pass orders for the best plans, for at most this long, if the runtime accepts them.",
        ),
    ] = None,
    front: Annotated[
        str | None, text_option("N", "Also search under N memory limits, to show time against memory.")
    ] = None,
    save: Annotated[Path | None, text_option("FILE", "Write the best plan's file here.")] = None,
    emit: Annotated[Path | None, text_option("DIR", "Write the launch files of the best plan here.")] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="Also print the best plan as its runtime's own flags.")
    ] = False,
    target: TargetOption = None,
    launcher: LauncherOption = "torchrun",
    smoke: SmokeOption = False,
    force: ForceOption = False,
) -> None:
    """Rank plans for a model on a cluster; what you set stays fixed, the rest is searched.

    Exit code 1 means that nothing fits; the answer then says what would.
    """
    job, target = _without_library(job, target, shown.quiet)
    launch = Launch(emit, target, launcher, job.target_version, force, smoke) if emit is not None else None
    if is_over_sites(job, sites):
        given = {**vars(failing), "slowdown": slowdown, "synthesize": synthesize, "front": front}
        given |= {"save": save, "flags": flags, "uniform": uniform, "top": top != "5", "near": near}
        given["smoke"] = smoke and emit is None
        asked_sites = SitesAsked(objective, oom_risk, tuple(allow or ()), launch, given)
        search_over_sites(job, plan, shown, sites, asked_sites)
        return
    recipe = recipe_of(near, job, plan, context, bool(save or emit))
    own = {"objective": objective, "top": top, "oom_risk": oom_risk, "uniform": uniform, "allow": allow}
    reader = partial(_read, target, own | {"slowdown": slowdown})
    asked, request = recipe.job.read(reader) if recipe is not None else reader(job, plan)
    others = {"front": front, "synthesize": synthesize, "flags": flags or None, "near": near}
    conditions = read_conditions(failing, request, **others)
    points = read_front(front, request)
    making = read_seconds(synthesize, request)
    check_place(save, force, "--save")
    wanted = Launch(emit or Path(), target, launcher, job.target_version, force, smoke)
    check_files(wanted, request, emit is not None, flags)
    if conditions is not None:
        nothing = search_goodput(asked, request, conditions, shown, (save, launch, force))
        if nothing is None:
            return
        emit_search(nothing, replace(request, objective="time"), shown, asked.defaults)
        raise typer.Exit(1)
    with Progress(shown.quiet, shown.verbose) as progress:
        beside = recipe.search(request, progress) if recipe is not None else None
        tiled = beyond.with_tiles(request) if "runtime" in asked.defaults and not asked.pinned else None
        result = beside.found.result if beside is not None else optimise.search(request, progress, tiled)
        asked, request = _answered(asked, request, tiled, result)
        progress(1.0, f"{result.priced:,} plans priced in {result.scan:.3f} s")
        request = in_use(beside.found.request if beside is not None else request, result)
        known = result.plans
        limits = _limits(request, points, progress, known) if points and known else ()
        made = None if making is None else _made(result, making, request)
    result = _ordered(result, made) if made and objective == "time" else result
    if not result.valid:
        reach.check_reached(request)
    tell_notes(() if shown.quiet else (request,), objective)
    order = order_of(result, made, objective)
    told = best_flags(result, wanted, order) if flags else None
    emit_search(result, request, shown, asked.defaults, limits if points else None, made, told, beside)
    if not result.plans:
        raise typer.Exit(1)
    write_best(result.plans[0], asked, save, launch, force, order)


def _answered(
    asked: Question, request: SearchRequest, tiled: SearchRequest | None, result: SearchResult
) -> tuple[Question, SearchRequest]:
    """Return what was answered: where nothing fits and no runtime was named, those of longer sequences."""
    runtime = result.plans[0].runtime if result.plans else None
    if tiled is None or runtime is None or runtime.name not in {one.name for one in tiled.runtimes}:
        return asked, request
    parts = f"these are of {runtime.name}, whose layers run in parts of a sequence"
    to_stderr(f"note: no plan of {asked.defaults['runtime']} fits; {parts}")
    own = {"runtime": runtime.name, "release": runtime.release}
    defaults = {name: own.get(name, value) for name, value in asked.defaults.items()}
    return replace(asked, defaults=defaults), tiled


def tell_notes(requests: Iterable[SearchRequest], objective: str) -> None:
    """Write what a user should know of requests on standard error."""
    for one in requests:
        lines = job_notes(one.model, one.workload, one.clusters, one.gpu_counts, objective)
        more = (*method_notes(one.fixed.get("cp_method"), one.runtimes), *file_notes(one.model, one.jobs()))
        for line in (*lines, *more):
            to_stderr(f"note: {line}")


def _limits(request: SearchRequest, points: int, progress: Progress, known: tuple[Estimate, ...]) -> Any:
    return report_front.memory_front(request, points, progress, known=known)


def _made(result: SearchResult, making: float, request: SearchRequest) -> tuple[MadeOrder, ...]:
    return made_order.made_orders(result.plans, making, request.oom_risk)


def _ordered(result: SearchResult, made: tuple[MadeOrder, ...]) -> SearchResult:
    return made_order.best_first(result, made)


def best_flags(result: SearchResult, launch: Launch, order: str | None) -> dict[str, Any] | None:
    """Return the runner's own flags of the best plan; None where there is no plan."""
    if not result.plans:
        return None
    best = result.plans[0]
    return runner_flags.flags_of(best, question_launch.wanted_target(launch, best.runtime), order)


def order_of(result: SearchResult, made: tuple[MadeOrder, ...] | None, objective: str) -> str | None:
    """Return the order that was made for the best plan, where it is faster and speed is asked for."""
    faster = (one for one in made or () if one.kept and objective != "memory")
    return next((one.text for one in faster if result.plans and one.answer is result.plans[0]), None)


def in_use(request: SearchRequest, result: SearchResult) -> SearchRequest:
    """Return the request with the accelerators that its plans use, where they cannot use all."""
    if not result.plans or not result.plans[0].job.idle:
        return request
    lead = result.plans[0].job
    return replace(request, gpu_counts=(lead.gpus,), cluster_gpus=lead.gpus + lead.idle)


def read_seconds(text: str | None, request: SearchRequest) -> float | None:
    """Return how long orders of passes may be made for the best plans.

    Raises `InputError` if it is no positive number, or no runtime that is searched takes such orders.
    """
    reading = Reading()
    seconds = reading.number("--synthesize", text, 0.0)
    if seconds is not None and seconds <= 0:
        reading.fault("--synthesize", f"{seconds:g}", "seconds above 0, such as 10")
    if text is not None and all(runtime.order_command is None for runtime in request.runtimes):
        able = [name for name, runtime in tables.runtimes().items() if runtime.order_command is not None]
        names = ", ".join(runtime.name for runtime in request.runtimes)
        reading.fault(
            "--synthesize", f"runtime {names}", f"a runtime that takes made orders: {', '.join(able)}"
        )
    reading.finish()
    return seconds


def read_front(text: str | None, request: SearchRequest) -> int | None:
    """Return how many limits of memory are searched.

    Raises `InputError` if it is no small number, or several clusters or counts are compared.
    """
    reading = Reading()
    points = reading.count("--front", text, least=2, most=64)
    if points is not None and len(request.clusters) * len(request.gpu_counts) > 1:
        reading.fault("--front", "several clusters or counts", "one cluster and one number of accelerators")
    reading.finish()
    return points


def _read(
    target: str | None, own: Mapping[str, Any], job: JobOptions, plan: PlanOptions
) -> tuple[Question, SearchRequest]:
    """Return what is asked; ``own`` are the options of the search itself."""
    said = {**_for_runtimes(job, target).said, **plan.said, **own}
    return read(said if target is None else said | _of_library(target, said))


def _of_library(target: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is searched for the files of a library: its runtimes, and the axes that it can say."""
    if tables.library_named(target) is None:
        return {}
    method = said.get("method") or "full"
    able = [name for name in tables.HOSTS if method in tables.runtimes()[name].methods]
    own = {"runtime": able or list(tables.HOSTS), **tables.FIXED}
    return {name: value for name, value in own.items() if said.get(name) is None}


def _without_library(
    job: NearJobOptions, target: str | None, quiet: bool
) -> tuple[NearJobOptions, str | None]:
    """Return the options where ``--runtime`` names a library: as if ``--target`` did, and no runtime."""
    named: tuple[str, ...] = tuple(job.said.get("runtime") or ())
    text = named[0].strip().lower() if len(named) == 1 and target is None else ""
    if not text or text.partition("@")[0] in tables.runtimes():
        return job, target
    library = tables.library_named(text)
    if library is None:
        return job, target
    if not quiet:
        to_stderr(f"note: --runtime {named[0]} is taken as --target {library.name}, which runs on a runtime")
    return job.but(runtime=None), library.name


def _for_runtimes(job: JobOptions, target: str | None) -> JobOptions:
    """Return the options without a release that is that of ``--target``."""
    return job if target is None else job.but(target_version=None)


def check_names(target: str | None, launcher: str) -> None:
    """Refuse names of targets and launchers that nobody has, whether or not files are asked for.

    Raises `InputError` with every unknown name.
    """
    if target is None and launcher == "torchrun":
        return
    reading = Reading()
    question_launch.named_files(target, launcher, reading)
    reading.finish()


def check_files(launch: Launch, request: SearchRequest, written: bool, flags: bool) -> None:
    """Refuse, before anything is searched, files or flags that could not be written.

    Raises `InputError` if a name is unknown, or an option stands where it has no meaning.
    """
    if launch.smoke and not written:
        raise InputError(Problem("--smoke", "no --emit", "a folder for the files", "--emit run --smoke"))
    check_names(launch.target, launch.launcher)
    if not (written or flags):
        return

    for runtime in request.runtimes:
        question_launch.wanted_target(launch, runtime)


def read(said: Mapping[str, Any], files: Files | None = None) -> tuple[Question, SearchRequest]:
    """Return what is asked and the request of the search; ``files`` loads models and clusters.

    Raises `InputError` with every fault of the options.
    """
    reading = Reading()
    question = questions.read_question(said, reading, files or question_job.FILES)
    reading.finish()
    if question is None:
        raise AssertionError("a fault was not told")
    return question, questions.request_of(question)


def emit_search(
    result: SearchResult,
    request: SearchRequest,
    shown: OutputOptions,
    defaults: dict[str, Any],
    front: tuple[Estimate, ...] | None = None,
    made: tuple[MadeOrder, ...] | None = None,
    flags: dict[str, Any] | None = None,
    near: NearAnswer | None = None,
) -> None:
    """Write a search in the format asked for; time against memory, made orders and flags where asked for."""
    played = report_played.far_steps(result)
    if shown.output is Format.json:
        more: dict[str, Any] = {} if front is None else {"front": report_front.front_document(front)}
        if played:
            more["played"] = as_json.plain(report_played.played_records(played))
        if made is not None:
            more["synthesis"] = as_json.plain([made_order.made_record(one) for one in made])
        if near is not None:
            more["near"] = near.record
        if flags is not None:
            more["flags"] = flags
        emit_document(as_json.search_document(result, defaults) | more)
    elif shown.output is Format.csv:
        rows = [("plan", answer) for answer in result.plans] + list(result.baselines)
        rows += [("front", answer) for answer in front or ()]
        emit_rows([{"row": name} | flat.flat_row(answer) for name, answer in rows], shown.output)
    else:
        answer = search_page.search_page if shown.verbose else search_answer.search_answer
        page = answer(result, request, {} if shown.quiet else defaults)
        emit_page(
            [
                *page,
                *(near.lines if near is not None else ()),
                *report_played.played_page(played),
                *(made_order.made_page(made, request.objective == "time") if made is not None else ()),
                *(report_front.front_page(front) if front else ()),
            ],
            shown.output,
        )
        if flags is not None:
            runner_flags.print_flags(flags)
