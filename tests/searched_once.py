"""A search that was run in this process is not run again for a test that asks the same."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import wraps

import pytest

from planner.search import optimise
from planner.search.candidates import ScanReport
from planner.search.known import KNOWN
from planner.search.priced import RECENT
from planner.search.request import Progress, SearchRequest
from planner.search.result import SearchResult

MOST = 256
"""Searches that are kept; then all are forgotten."""

Answer = tuple[SearchResult, list[ScanReport]]


class Switch:
    """What some tests have."""

    on = False


SHARED = Switch()
"""Whether the test that runs may be answered with what another one has searched."""

run = optimise._searched
_known: dict[tuple[object, ...], list[tuple[SearchRequest, Answer]]] = {}


def searched_once(request: SearchRequest, progress: Progress | None, beside: bool) -> Answer:
    """Return what the search found before, or run it; a request is known by every value in it."""
    if not SHARED.on:
        return run(request, progress, beside)
    names = (request.model.name, *(cluster.name for cluster in request.clusters), request.gpu_counts)
    asked = _known.setdefault((names, str(request.fixed), request.objective, request.top, beside), [])
    for known, answer in asked:
        if known == request and kernels_and_links(known) == kernels_and_links(request):
            if progress is not None:
                for job, runtime in request.jobs():
                    progress(0.0, f"{job.gpus} x {job.hardware.name}, {runtime.name}")
            return answer
    answer = run(request, progress, beside)
    if len(_known) > MOST:
        _known.clear()
    asked.append((request, answer))
    return answer


def forget_all() -> None:
    """Let the planner price again what it remembers of other searches."""
    KNOWN.clear()
    RECENT.clear()


def kernels_and_links(request: SearchRequest) -> list[object]:
    """Return what tests set beside the fields of a cluster."""
    pools = [pool for cluster in request.clusters for pool in cluster.pools]
    return [(pool.accelerator.kernels, pool.tiers) for pool in pools]


PLACES = frozenset({"chdir", "setenv", "delenv"})
"""What `monkeypatch` does that changes no code: where a test runs, and with which environment."""


def changes_planner(item: pytest.Item) -> bool:
    """Whether a test, or a fixture of it, names monkeypatch and says nowhere that it moves it alone.

    One that does and puts other code in the planner's place all the same is told from then on (`alone`).
    """
    made = getattr(item, "_fixtureinfo", None)
    if made is None:
        return True
    functions = [getattr(item, "obj", None)] if "monkeypatch" in made.argnames else []
    functions += [
        defs[-1].func for defs in made.name2fixturedefs.values() if "monkeypatch" in defs[-1].argnames
    ]
    return not all(PLACES & set(inspect.unwrap(one).__code__.co_names) for one in functions)


def alone(change: Callable[..., None]) -> Callable[..., None]:
    """Return a method of monkeypatch after which a test shares no searches."""

    @wraps(change)
    def changed(*asked: object, **named: object) -> None:
        if SHARED.on and asked[1] is not os.environ:
            SHARED.on = False
            forget_all()
        change(*asked, **named)

    return changed
