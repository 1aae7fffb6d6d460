"""The cluster of a saved plan, where the user names none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from planner.cli.options import JobOptions

if TYPE_CHECKING:
    from planner.runtimes.imports.sheet import Imported


def without_settings(job: JobOptions, names: Iterable[str], context: typer.Context | None) -> JobOptions:
    """Return the options without those of ``names`` that a setting of the user or project gives."""
    if context is None:
        return job
    sources = {name: context.get_parameter_source(name) for name in names if name in job.said}
    dropped: dict[str, Any] = {
        name: None for name, source in sources.items() if source is not None and source.name == "DEFAULT_MAP"
    }
    return job.but(**dropped)


def on_own_cluster(
    found: Imported, job: JobOptions, context: typer.Context | None
) -> tuple[JobOptions, dict[str, str]]:
    """Return the options with the cluster that a file names, and what was taken of it.

    Its nodes, price and limit of memory are those of its cluster: another one that the user names has none of
    them. What the user gives goes before each.
    """
    own = dict(found.cluster)
    job = without_settings(job, ["hardware"] if "hardware" in own else [], context)
    if not own or job.hardware not in (None, [own["hardware"]]):
        return job, {}
    job = without_settings(job, own, context)
    taken = {name: text for name, text in own.items() if not job.said[name]}
    values: dict[str, Any] = {
        name: [text] if name in ("hardware", "price") else text for name, text in taken.items()
    }
    return job.but(**values), taken
