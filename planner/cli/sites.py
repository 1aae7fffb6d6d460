"""``planner search`` over several sites: options, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from planner.cli import complete
from planner.cli.options import Format, JobOptions, OutputOptions, PlanOptions, text_option
from planner.cli.output import emit_document, emit_page, emit_rows
from planner.cli.progress import Progress
from planner.dataclasses import dataclass, fields, replace
from planner.deferred import deferred
from planner.errors import InputError, Problem, nearest
from planner.question.reading import Reading

with deferred():
    from planner.cli import sites_files
    from planner.inputs import sites
    from planner.question import axes as question_axes
    from planner.question import job as question_job
    from planner.question import traits, values
    from planner.report import sites as report_sites
    from planner.search import settings
    from planner.search.sites import joint, rank, shares
    from planner.search.sites import request as sites_request
    from planner.search.sites import unlike as unlike_sites

if TYPE_CHECKING:
    from planner.inputs.sites import SitesProfile
    from planner.question.job import JobAsked
    from planner.question.launched import Launch
    from planner.techniques.sync import Sync

MOST_STEPS: Final = 10**6
RUNTIME: Final = "torchtitan"
"""The runtime that is taken where nobody names one: with torchft it trains over sites."""
STEPS: Final = "100..1000"
SPEED: Final = "speed"
SHARES: Final = ("equal", SPEED)


@dataclass(frozen=True)
class SiteOptions:
    """How replicas at several sites keep together, as the user wrote it."""

    sync: Annotated[
        list[str] | None,
        typer.Option(
            "--sync",
            metavar="NAME",
            help="How sites synchronise: ddp, stages, local-sgd, diloco, streaming, eager, diloco-x, co2, "
            "edit, a-edit, noloco, sparseloco, des-loc, mt-dao, qsr, flexdemo, swarm, skippipe, spes or "
            "one-byte. [default: those with a runner]",
            autocompletion=complete.sync,
            show_default=False,
        ),
    ] = None
    across: Annotated[
        str | None,
        typer.Option(
            "--across",
            metavar="AXIS",
            help="What crosses sites: outer (copies that exchange after inner steps), data (data "
            "parallelism at every step) or stages (of one pipeline). [default: the search chooses]",
            autocompletion=complete.across,
            show_default=False,
        ),
    ] = None
    inner_steps: Annotated[
        str | None,
        text_option(
            "N|A..B",
            "Local steps between two exchanges of the same parameters. [default: 100..1000]",
            "--inner-steps",
        ),
    ] = None
    compress: Annotated[
        str | None,
        typer.Option(
            "--compress",
            metavar="NAME[:X][+KEPT]",
            help="What sites exchange: none, int8, int4, topk:1%, ternary, dct:32 or layerwise, and after a "
            "plus what keeps the rest: error-feedback, econtrol or momentum-correction. "
            "[default: the method's own]",
            autocompletion=complete.compress,
            show_default=False,
        ),
    ] = None
    batch_shares: Annotated[
        str | None,
        text_option(
            "equal|speed",
            "How replicas share the batch: alike, so that all wait for the slowest, or by their speed. "
            "[default: equal]",
            "--batch-shares",
        ),
    ] = None

    @property
    def given(self) -> bool:
        """Whether any of them is."""
        return any(getattr(self, one.name) is not None for one in fields(self))


@dataclass(frozen=True)
class SitesAsked:
    """What else the command was given; ``others`` are options that a search over sites does not take."""

    objective: str
    oom_risk: str
    allow: tuple[str, ...]
    launch: Launch | None
    others: Mapping[str, object]


def is_over_sites(job: JobOptions, options: SiteOptions) -> bool:
    """Whether a search is over sites.

    Raises `InputError` if options for sites are given and no file of sites, or several clusters beside it.
    """
    names = list(dict.fromkeys(job.hardware or ()))
    found = [name for name in names if sites.is_sites_file(name)]
    reading = Reading()
    if found and len(names) > 1:
        reading.fault("--hardware", ", ".join(names), "one file of sites alone", found[0])
    if options.given and not found:
        option = next(
            f"--{one.name.replace('_', '-')}"
            for one in fields(options)
            if getattr(options, one.name) is not None
        )
        where = ", ".join(names) or "nothing"
        reading.fault(option, f"--hardware {where}", "a YAML file with sites and the links between them")
    reading.finish()
    return bool(found)


def search_over_sites(
    job: JobOptions, plan: PlanOptions, shown: OutputOptions, options: SiteOptions, asked: SitesAsked
) -> None:
    """Rank the ways to train over the sites of a file."""
    request, defaults = read_sites(job, plan, options, asked)
    with Progress(shown.quiet, shown.verbose) as progress:
        progress(0.0, f"searching inside {len(request.profile.sites)} sites")
        if options.batch_shares == SPEED:
            request = shares.shared_by_speed(request)
        result = rank.search_sites(request)
        progress(1.0, f"{result.searched:,} plans priced")
    if shown.output is Format.json:
        emit_document(report_sites.sites_document(result, request, defaults))
    elif shown.output is Format.csv:
        rows = [flat_way(report_sites.way_document(one)) for one in (*result.ranked, *result.others)]
        emit_rows(rows, shown.output)
    else:
        emit_page(
            report_sites.sites_page(result, request, {} if shown.quiet else defaults, shown.verbose),
            shown.output,
        )
    if not result.ranked:
        raise typer.Exit(1)
    if asked.launch is not None:
        sites_files.write_sites(result, request, job, asked.launch)


def flat_way(document: dict[str, Any]) -> dict[str, Any]:
    """Return one way as a row: lists and records in words."""
    links = document["links"]
    flat = {name: value for name, value in document.items() if not isinstance(value, (list, dict))}
    return flat | {
        "peak_gbit_per_s": max(one["peak_gbit_per_s"] for one in links),
        "mean_gbit_per_s": max(one["mean_gbit_per_s"] for one in links),
        "runner": " ".join(document["runner"]),
        "refused": "; ".join(document["refused"]),
        "penalty": document["penalty"]["text"],
        "penalty_source": document["penalty"]["source"],
    }


def read_sites(
    job: JobOptions, plan: PlanOptions, options: SiteOptions, asked: SitesAsked
) -> tuple[sites_request.SitesRequest, dict[str, Any]]:
    """Return the request of a search over sites, and what was taken because nothing was given.

    Raises `InputError` with every fault of options and file.
    """
    from planner.techniques.compress import read_compression

    reading = Reading()
    found = reading.attempt(sites.load_sites, (job.hardware or [""])[0])
    _refuse_others(job, asked, reading)
    if options.batch_shares not in (None, *SHARES):
        text = str(options.batch_shares)
        reading.fault("--batch-shares", text, f"one of {', '.join(SHARES)}", nearest(text, SHARES))
    axes = question_axes.read_axes(plan.said, reading)
    risk = values.read_value("oom_risk", asked.oom_risk, reading)
    syncs = read_syncs(options.sync, options.across, reading)
    steps = read_steps(options.inner_steps, reading)
    packed = reading.attempt(read_compression, options.compress) if options.compress is not None else None
    first = found[0].sites[0].cluster if found is not None else "dgx-h100"
    inner = job.but(hardware=[first], gpus="1", runtime=(job.runtime or [RUNTIME])[:1])
    known = question_job.read_job(inner.said, reading)
    allowed = traits.allowed_settings(asked.allow, reading)
    batch = whole_batch(known, found[0].replicas, job, reading) if found and known else None
    syncs = _with_parts(syncs, known, found, is_named(options.sync), reading)
    reading.finish()
    if found is None or known is None or risk is None or steps is None or syncs is None or batch is None:
        raise AssertionError("a fault was not told")
    workload = known.workload.model_copy(update={"global_batch": batch})
    defaults = dict(known.defaults)
    defaults |= {"global_batch": batch} if "global_batch" in defaults else {}
    defaults |= {} if options.inner_steps else {"inner_steps": STEPS}
    defaults |= {} if job.runtime else {"runtime": RUNTIME}
    request = sites_request.SitesRequest(
        profile=found[0],
        clusters=found[1],
        model=known.model,
        workload=workload,
        runtime=known.runtimes[0],
        syncs=syncs,
        steps=steps,
        packed=packed,
        asked=bool(options.sync),
        fixed=axes,
        memory_limit=known.memory_limit,
        oom_risk=risk,
        settings=settings.OpenSettings(traits.pinned_settings(job.changes or (), workload), allowed),
    )
    _check_stages(request)
    return request, defaults


def _check_stages(request: sites_request.SitesRequest) -> None:
    """Refuse a number of stages that does not fill the sites, where stages alone are to cross them.

    Raises `InputError` with the number that does.
    """
    stages = request.fixed.get("pp")
    if stages is None or any(one.pattern != "pipeline" for one in request.syncs):
        return
    unlike = joint.refused_joint(request)
    tried = unlike_sites.stage_counts(request) if unlike else joint.stage_counts(request, "stages")
    if not tried:
        free = replace(request, fixed={})
        known = unlike_sites.stage_counts(free) if unlike else joint.stage_counts(free, "stages")
        near = min(known, key=lambda count: abs(count - int(str(stages))), default=None)
        where = "stages of as many accelerators each that fill every site"
        raise InputError(Problem("--pp", str(stages), where, str(near or "")))


def _refuse_others(job: JobOptions, asked: SitesAsked, reading: Reading) -> None:
    """Note options that a search over sites does not take."""
    for name, value in asked.others.items():
        if value is not None and value is not False:
            reading.fault(f"--{name}", "a search over sites", "a search of one cluster")
    own = (job.runtime or [RUNTIME])[0]
    if asked.launch is not None and asked.launch.target not in (None, own):
        reading.fault("--target", str(asked.launch.target), "files of several sites for the runtime", own)
    if job.gpus is not None:
        reading.fault("--gpus", job.gpus, "none: the file of sites says how many")
    if job.price:
        reading.fault("--price", ", ".join(job.price), "the price of each site in its file")
    if job.method is not None and job.method.strip().lower() != "full":
        reading.fault("--method", job.method, "full: what sites exchange of adapters has no price", "full")
    if asked.objective.strip().lower() != "time":
        reading.fault("--objective", asked.objective, "time, which money follows", "time")
    if len(job.runtime or ()) > 1:
        reading.fault("--runtime", ", ".join(job.runtime or ()), "one runtime for all sites")


def whole_batch(known: JobAsked, replicas: int, job: JobOptions, reading: Reading) -> int:
    """Return the sequences of an inner step over all replicas, a fault noted where they cannot share them."""
    batch = known.workload.global_batch
    less = batch // replicas * replicas
    given = job.global_batch is not None or job.global_batch_tokens is not None
    if less != batch and (given or not less):
        near = f"{less} or {less + replicas}" if less else str(replicas)
        reading.fault("--global-batch", str(batch), f"a multiple of the {replicas} replicas", near)
    return less


def read_syncs(texts: list[str] | None, across: str | None, reading: Reading) -> tuple[Sync, ...] | None:
    """Return the methods that are compared: those named, or all, of the axis that is to cross sites."""
    from planner.techniques.sync import AXES, SYNCS

    axis = across.strip().lower() if across is not None else None
    if axis is not None and axis not in AXES:
        reading.fault(
            "--across",
            str(across),
            f"one of {', '.join(AXES)}",
            nearest(axis, tuple(AXES)),
        )
        return None
    if not texts or not is_named(texts):
        return tuple(one for one in SYNCS.values() if axis in (None, one.axis))
    found = [reading.named("--sync", text, SYNCS) for text in texts]
    if None in found:
        return None
    known = tuple(dict.fromkeys(one.name for one in found if one is not None))
    for name in known:
        if axis not in (None, SYNCS[name].axis):
            near = f"--across {SYNCS[name].axis}"
            reading.fault("--sync", name, f"a method in which {axis} crosses sites", near)
    return tuple(SYNCS[name] for name in known)


def is_named(texts: list[str] | None) -> bool:
    """Whether methods are named one by one."""
    return bool(texts) and [text.strip().lower() for text in texts or ()] != ["all"]


def _with_parts(
    syncs: tuple[Sync, ...] | None,
    known: JobAsked | None,
    found: tuple[SitesProfile, Any] | None,
    named: bool,
    reading: Reading,
) -> tuple[Sync, ...] | None:
    """Return the methods for which the model has what they share out; note those that were named without."""
    if syncs is None or known is None or found is None:
        return syncs
    lacks = {one.name: one.parts(known.model, found[0].replicas).lacks for one in syncs}
    for name, what in lacks.items():
        if what and named:
            reading.fault("--sync", f"{name} for {known.model.name}", f"a model with {what}")
    return tuple(one for one in syncs if not lacks[one.name])


def read_steps(text: str | None, reading: Reading) -> tuple[int, ...] | None:
    """Return the inner steps that are tried."""
    spans = reading.counts("--inner-steps", text or STEPS)
    if spans is None:
        return None
    most = max(last for _, last in spans)
    if most > MOST_STEPS:
        reading.fault("--inner-steps", str(most), f"at most {MOST_STEPS:,}", str(MOST_STEPS))
        return None
    return tuple(sorted({steps for span in spans for steps in sites_request.steps_between(*span)}))
