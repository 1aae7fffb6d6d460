"""``planner report``: a plan or a search as one self-contained HTML page with pictures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.explain import priced, pricer_of, read_saved, request_of
from planner.cli.options import ForceOption, QuietOption, VerboseOption, text_option
from planner.cli.progress import Progress
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.files import check_place, write_whole
from planner.inputs.bounded import DOCUMENT_BYTES
from planner.question.reading import Reading

with deferred():
    from planner.cost import price
    from planner.inputs import yaml_file
    from planner.report import explain, html, html_plan, html_search, html_sites, plan_file, plan_grid, sites
    from planner.report import front as report_front

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.report.front import Patience, Tell
    from planner.report.html import HtmlPage
    from planner.report.plan_file import PlanFile

TIME_LIMIT = 60.0
"""Time for the searches of a page. [s]"""

POINTS = 8
"""Limits of memory for which the fastest plan is searched."""


def report(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN_OR_SEARCH",
            help="A plan file, or the JSON that `search` printed, or - for standard input.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write.")],
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="For a plan: also search its job at other GPU counts and memory limits."
        ),
    ] = False,
    sliders: Annotated[
        bool,
        typer.Option(
            "--sliders",
            help="For a plan: sliders for accelerators, batch and sequence length, over plans searched now.",
        ),
    ] = False,
    time_limit: Annotated[
        str | None, text_option("S", "Seconds that the searches of each may take. [default: 60]")
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Write one self-contained HTML page: it needs no network and no other file.

    It needs plotly, from the extra: pip install 'parallelism-planner[report]'.
    """
    said, reading = source_text(source), Reading()
    seconds = reading.number("--time-limit", time_limit, 0.0)
    document = search_document_of(said, source)
    if sliders and document is not None:
        reading.fault("--sliders", "a search", "a plan file, whose job is searched again: search --save PLAN")
    reading.finish()
    patience = report_front.Patience(TIME_LIMIT if seconds is None else seconds)
    html.library()
    check_place(out, force, "--out")
    with Progress(quiet, verbose) as progress:
        progress(0.0, f"drawing {source}")
        if document is None:
            page = plan_page(source, said, progress if search else None, patience)
            if sliders:
                page = with_sliders(page, source, said, progress, report_front.Patience(patience.seconds))
        else:
            drawn = (
                html_sites.sites_report
                if document.get("schema") == sites.SITES
                else html_search.search_report
            )
            page = drawn(document, str(source), plan_file.tool_version())
        text = html.page_html(page)
    write_whole(out, text, force)
    for what in patience.left_out:
        progress.tell(f"note: no time for {what}")
    if not quiet:
        typer.echo(f"wrote {out}", err=True)


def source_text(path: Path) -> str:
    """Return what stands in a file, or on standard input.

    Raises `InputError` if it cannot be read.
    """
    return yaml_file.read_text(path, DOCUMENT_BYTES)


def search_document_of(text: str, path: Path) -> dict[str, Any] | None:
    """Return the document of a text that is JSON; None where it is none.

    Raises `InputError` if it starts like JSON and is none.
    """
    return yaml_file.parse_json(text, str(path)) if text.lstrip().startswith("{") else None


def plan_page(path: Path, text: str, tell: Tell | None, patience: Patience) -> HtmlPage:
    """Return the page of a plan file that was read; its job is searched where ``tell`` wants to be told."""
    saved = read_saved(path, text=text)
    answer = priced(saved, path)
    told = explain.explain(answer, pricer_of(saved))
    around = (
        html_plan.Around(scaled(saved)) if tell is None else searched_around(saved, answer, tell, patience)
    )
    return html_plan.plan_report(told, around, plan_file.tool_version(), saved.notes)


def with_sliders(page: HtmlPage, path: Path, text: str, tell: Tell, patience: Patience) -> HtmlPage:
    """Return the page of a plan with sliders below its figures, over plans that are searched now."""
    request = request_of(read_saved(path, text=text))
    block = plan_grid.sliders(request, dict(plan_grid.searched_grid(request, tell, patience)))
    place = 1 + next(number for number, one in enumerate(page.blocks) if one.kind == "tiles")
    return replace(page, blocks=(*page.blocks[:place], block, *page.blocks[place:]))


def searched_around(saved: PlanFile, answer: Estimate, tell: Tell, patience: Patience) -> html_plan.Around:
    """Return what stands around a plan, the fastest plans of other counts and limits searched."""
    scaling, request = scaled(saved), request_of(saved)
    own = saved.job.gpus
    others = sorted(
        (answer.job.gpus for answer in scaling), key=lambda gpus: (max(gpus / own, own / gpus), gpus)
    )
    best = report_front.best_at_counts(request, (own, *others), tell, patience, [answer, *scaling])
    front = report_front.memory_front(request, POINTS, tell, patience, [answer])
    return html_plan.Around(scaling, best, front, tuple(patience.left_out))


def scaled(saved: PlanFile) -> list[Estimate]:
    """Return the plan's prices on half to eight times the accelerators, where it runs and fits."""
    found = []
    plan, job = saved.plan, saved.job
    for factor in (0.25, 0.5, 2.0, 4.0, 8.0):
        dp, gpus = plan.dp * factor, job.gpus * factor
        passes = job.workload.global_batch // (plan.micro_batch * dp) if dp >= 1 else 0
        if dp != int(dp) or passes < 1:
            continue
        shards = (
            plan.zero_shards * factor
            if plan.zero and plan.zero_shards == plan.dp * plan.cp
            else plan.zero_shards
        )
        other = replace(plan, dp=dp, num_microbatches=float(passes), zero_shards=shards)
        answer = price.price(other, replace(job, gpus=int(gpus)), saved.runtime, saved.names.memory_limit)
        if not isinstance(answer, price.Unpriced) and answer.feasible:
            found.append(answer)
    return found
