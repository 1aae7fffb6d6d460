"""``planner search --near FILE``: a recipe or launch file, on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.cli.from_file import FileRequest, asked_of, optional_model
from planner.cli.options import JobOptions, PlanOptions, text_option
from planner.dataclasses import dataclass, replace
from planner.deferred import deferred
from planner.errors import InputError, Problem
from planner.inputs.workload import Workload
from planner.units import is_whole

with deferred():
    from planner.cli import estimate
    from planner.report import as_json
    from planner.report import near as report_near
    from planner.search import near

if TYPE_CHECKING:
    from planner.search.near import Near
    from planner.search.request import Progress
    from planner.search.request import SearchRequest as SearchRequest

NearOption = Annotated[
    Path | None,
    text_option(
        "FILE",
        "A recipe, launch file or saved plan: keep its layout and settings as far as they run here, and "
        "tell what had to change.",
        "--near",
    ),
]


@dataclass(frozen=True)
class NearJobOptions(JobOptions):
    """What is planned, where the model may come from a recipe."""

    model: Annotated[str, optional_model("--near")] = ""


@dataclass(frozen=True)
class NearRecipe:
    """A recipe as a search keeps it."""

    path: Path
    """Its file."""
    job: FileRequest
    """Options of the new job: the user's, and the file's where the user gave none."""
    axes: Mapping[str, object]
    """Its layout."""
    notes: tuple[str, ...]
    """What was read, and how its batch was scaled."""
    precision: str = ""
    """The number format of the recipe, where the accelerator has none such; else empty."""

    def search(self, request: SearchRequest, progress: Progress) -> NearAnswer:
        """Search the plans that keep the most of it."""
        found = near.near(request, self.axes, progress)
        return NearAnswer(self, found.in_format(self.precision) if self.precision else found)


@dataclass(frozen=True)
class NearAnswer:
    """What a search beside a recipe found, for people and scripts."""

    recipe: NearRecipe
    found: Near

    @property
    def lines(self) -> list[str]:
        """What was kept and changed, in words."""
        start = f"{self.recipe.path}: "
        first, *others = self.recipe.notes[1:] or ("",)
        bare = (note.removeprefix(start) for note in others)
        notes = (first, *(note[:1].upper() + note[1:] for note in bare)) if first else ()
        return report_near.near_lines(self.found, notes)

    @property
    def record(self) -> dict[str, Any]:
        """The same for scripts."""
        record: dict[str, Any] = as_json.plain(
            report_near.near_record(self.found, str(self.recipe.path), self.recipe.notes)
        )
        return record


def recipe_of(
    path: Path | None, job: JobOptions, plan: PlanOptions, context: typer.Context, saves: bool
) -> NearRecipe | None:
    """Return what a file says for a search, None without one; what the user gave goes before it.

    The batch grows with the accelerators where the user gives none, so that each has as much to do as in the
    recipe.

    Raises `InputError` if no model is named, or the file is wrong, says no whole plan, or describes a model
    without a name whose plan is to be written.
    """
    if path is None:
        if job.model:
            return None
        expected = "a name, a config.json or a model YAML; or --near FILE with a recipe that describes one"
        raise InputError(Problem("MODEL", "nothing", expected))

    own = job.but(gpus=None, hardware=(job.hardware or [])[:1] or None)
    origin = asked_of(path, own, PlanOptions(), context)
    if origin.job.gpus is None and job.gpus is not None:
        origin = asked_of(path, own.but(gpus=job.gpus), PlanOptions(), context)
    if saves and origin.model is not None:
        expected = "a name of the model before --near, since a plan file names it"
        raise InputError(Problem("MODEL", f"{path}, which describes a model without a name", expected))
    was = ""
    try:
        whole, own_plan, _, _, _ = origin.read(estimate.read)
    except InputError as error:
        was, origin = _in_another_format(origin, job, error)
        whole, own_plan, _, _, _ = origin.read(estimate.read)
    filled = origin.job.but(hardware=job.hardware or origin.job.hardware, gpus=job.gpus or origin.job.gpus)
    notes = list(origin.notes())
    count = _count(job.gpus)
    given = job.global_batch is not None or job.global_batch_tokens is not None
    if not given and count is not None and count != whole.gpus:
        batch = _scaled(whole.workload, whole.gpus, count)
        filled = filled.but(global_batch=str(batch), global_batch_tokens=None)
        notes.append(
            f"Batch scaled with the accelerators: {whole.workload.global_batch:,} sequences on {whole.gpus:,}"
            f" -> {batch:,} on {count:,} (--global-batch says another)."
        )
    return NearRecipe(path, replace(origin, job=filled, plan=plan), near.axes_of(own_plan), tuple(notes), was)


def _in_another_format(origin: FileRequest, job: JobOptions, error: InputError) -> tuple[str, FileRequest]:
    """Return the number format of a recipe, and the request in the nearest one that the accelerator has.

    Raises `InputError`: the error given, where it is about anything else.
    """
    source, (problem, *others) = origin.origin, error.problems
    own = source is not None and problem.where == source.place_of("precision")
    if others or not own or job.precision is not None or not problem.nearest:
        raise error
    return origin.job.precision or "", replace(origin, job=origin.job.but(precision=problem.nearest))


def _count(text: str | None) -> int | None:
    """Return a single count of accelerators; None for a range or a list, or none."""
    return int(text) if text is not None and is_whole(text) else None


def _scaled(work: Workload, was: int, now: int) -> int:
    """Return the batch that leaves each accelerator as many sequences. [sequence]"""
    return max(1, round(work.global_batch * now / was))
