"""Searches as tasks of a Ray cluster, or of one that is started on this machine."""

from __future__ import annotations

import importlib
import re
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from planner.errors import CheckFailed, InputError, Problem
from planner.report.plan_file import tool_version
from planner.sweep.executors.family import Executor, ExecutorSettings, Solve, cores
from planner.sweep.row import SweepOutcome
from planner.sweep.run import Work
from planner.sweep.solve import failed

AHEAD: Final = 2
"""Tasks handed over for each core of the cluster, so that none waits for the driver."""
PATIENCE: Final = 10.0
"""Seconds in which somebody must listen at an address. [s]"""
EXTRA: Final = "pip install 'parallelism-planner[sweep]'"


def run(work: Work, solve: Solve, settings: ExecutorSettings) -> Iterator[tuple[str, SweepOutcome]]:
    """Search the work on Ray; a task is never tried twice."""
    ray = _imported()
    _connect(ray, settings)
    try:
        check_version(ray, tool_version())
        yield from _searched(ray, work, solve)
    finally:
        ray.shutdown()


def _searched(ray: Any, work: Work, solve: Solve) -> Iterator[tuple[str, SweepOutcome]]:
    task = ray.remote(num_cpus=1, max_retries=0)(solve)
    pending = deque(work)
    running: dict[Any, str] = {}
    while pending or running:
        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        while pending and len(running) < most:
            key, request = pending.popleft()
            running[task.remote(request)] = key
        done, _ = ray.wait(list(running))
        for reference in done:
            try:
                outcome = ray.get(reference)
            except ray.exceptions.RayError as error:
                outcome = failed(error)
            yield running.pop(reference), outcome


def _imported() -> Any:
    """Return the module ``ray``.

    Raises `InputError` if it is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError:
        problem = Problem("--executor", "ray, which is not installed here", f"the extra: {EXTRA}", "local")
        raise InputError(problem) from None


def _connect(ray: Any, settings: ExecutorSettings) -> None:
    """Join the cluster at the address, or start one here.

    Raises `InputError` if nobody answers at the address.
    """
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if settings.address is None:
        ray.init(num_cpus=settings.jobs or cores(), include_dashboard=False, address="local", **quiet)
        return
    try:
        _knock(settings.address)
        ray.init(address=settings.address, **quiet)
    except (ValueError, RuntimeError, OSError) as error:
        words = " ".join(str(error).split())[:160]
        expected = (
            f"a running Ray cluster, such as auto or HOST:6379, and its token where it has one ({words})"
        )
        raise InputError(Problem("--ray", settings.address, expected)) from None


def _knock(address: str) -> None:
    """Ask whether anybody listens at a host and port; Ray itself asks for many minutes.

    Raises `OSError` if nobody does.
    """
    if found := re.fullmatch(r"(?:ray://)?(.+):(\d+)", address):
        socket.create_connection((found[1].strip("[]"), int(found[2])), timeout=PATIENCE).close()


def check_version(ray: Any, here: str) -> None:
    """Ask the cluster which planner it has.

    ``ray``: ray, joined to the cluster; ``here``: the version of this machine.

    Raises `CheckFailed` if it has none, or another version than this machine.
    """
    try:
        there = ray.get(ray.remote(num_cpus=1)(tool_version).remote())
    except ray.exceptions.RayError as error:
        words = " ".join(str(error).split())[-160:]
        raise CheckFailed(f"the Ray cluster cannot run planner {here}; install it there ({words})") from None
    if there != here:
        raise CheckFailed(f"the Ray cluster has planner {there}, this machine {here}; install the same")


ENTRY = Executor(name="ray", title="a Ray cluster", run=run)
