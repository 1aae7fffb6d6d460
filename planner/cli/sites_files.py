"""Launch files of a search over sites: a folder for each replica, or one for a job over all of them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import typer

from planner.cli.options import JobOptions
from planner.dataclasses import replace
from planner.deferred import deferred
from planner.errors import UnsupportedPlan
from planner.runtimes.torchtitan.semi_sync import SemiSync, semi_sync_runtime

with deferred():
    from planner.inputs import load_hardware
    from planner.question import launch as question_launch
    from planner.report import plan_file
    from planner.search.sites import joint

if TYPE_CHECKING:
    from planner.question.launched import Launch
    from planner.search.sites.request import SitesRequest
    from planner.search.sites.ways import Ranked, SitesResult


def write_sites(result: SitesResult, request: SitesRequest, job: JobOptions, launch: Launch) -> None:
    """Write the launch files of the best way.

    Raises `UnsupportedPlan` if no runner is known for it, or the runner refuses it.
    """
    best = result.ranked[0]
    if best.refused:
        raise UnsupportedPlan(f"{best.sync.name}: {'; '.join(best.refused)}")
    if best.steps:
        _write_job(best, request, job, launch)
    elif not request.runtime.lone_replicas:
        raise UnsupportedPlan(
            f"files of replicas at several sites are not written for {request.runtime.name}"
        )
    else:
        _write_replicas(best, request, job, launch)


def _write_replicas(best: Ranked, request: SitesRequest, job: JobOptions, launch: Launch) -> None:
    """Write a folder of files for each replica, which torchft keeps together."""
    replica = 0
    for site in request.profile.sites:
        answer = best.plans[site.name]
        for number in range(site.replicas):
            folder = site.name if site.replicas == 1 else f"{site.name}-{number}"
            runtime = semi_sync_runtime(answer.runtime, semi_sync_of(best, request, replica))
            place = replace(launch, out=launch.out / folder)
            wanted = replace(question_launch.wanted_target(place, answer.runtime), runtime=runtime)
            names = plan_file.Names(job.model, site.cluster, None, request.memory_limit)
            typer.echo(
                question_launch.write_files(replace(answer, runtime=runtime), names, wanted, place), err=True
            )
            replica += 1


def _write_job(best: Ranked, request: SitesRequest, job: JobOptions, launch: Launch) -> None:
    """Write the files of one job whose islands are the sites."""
    text = joint.islands_yaml(request.profile, request.clusters, Path((job.hardware or [""])[0]).parent)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "hardware.yaml"
        file.write_text(text, encoding="utf-8")
        answer = joint.on_cluster(next(iter(best.plans.values())), load_hardware.load_hardware(str(file)))
        names = plan_file.Names(job.model, str(file), None, request.memory_limit)
        typer.echo(
            question_launch.write_files(
                answer, names, question_launch.wanted_target(launch, answer.runtime), launch
            ),
            err=True,
        )


def semi_sync_of(best: Ranked, request: SitesRequest, replica: int) -> SemiSync:
    """Return a way in torchft's words, for one replica."""
    way, timing = best.price.way, best.price.timing
    return SemiSync(
        method=way.sync.runners[request.runtime.name],
        steps=way.steps,
        fragments=timing.fragments,
        delay=timing.delay,
        quantize=bool(way.packed.how.runners[request.runtime.name]),
        replicas=request.profile.replicas,
        replica=replica,
        exchange=sum(best.price.exchanges),
    )
