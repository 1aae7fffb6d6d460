"""Searches in processes of this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from typing import Final

from planner.search.request import SearchRequest
from planner.sweep.executors.family import Executor, ExecutorSettings, Solve, cores
from planner.sweep.row import SweepOutcome
from planner.sweep.run import Work
from planner.sweep.solve import failed

THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables that keep numerical libraries to one thread in each process."""
ISOLATED: Final = "PYTHONSAFEPATH"
"""Variable that keeps modules of the folder that a process starts in from taking the place of Python's."""
ENDED: Final = "the process of this search was ended, by a signal or for want of memory"

Item = tuple[str, SearchRequest]


def run(work: Work, solve: Solve, settings: ExecutorSettings) -> Iterator[tuple[str, SweepOutcome]]:
    """Search the work in processes that share nothing.

    When a process dies, so does its pool, and nobody knows which case it was: each case that ran then is
    searched again alone, and the one that kills its process once more has failed.
    """
    pending = deque(work)
    with one_thread_each():
        while pending:
            suspects = yield from _until_broken(pending, solve, min(settings.jobs or cores(), len(pending)))
            for suspect in suspects:
                alone = deque([suspect])
                if (yield from _until_broken(alone, solve, 1)):
                    yield suspect[0], failed(ENDED)


def _until_broken(
    pending: deque[Item], solve: Solve, jobs: int
) -> Generator[tuple[str, SweepOutcome], None, list[Item]]:
    """Search until nothing is pending or a process dies; return the cases that ran when it died."""
    running: dict[Future[SweepOutcome], Item] = {}
    with _pool(jobs) as pool:
        while pending or running:
            while pending and len(running) < jobs:
                try:
                    with _uninterrupted():
                        future = pool.submit(solve, pending[0][1])
                except BrokenProcessPool:
                    return list(running.values())
                running[future] = pending.popleft()
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            broken = [future for future in done if isinstance(future.exception(), BrokenProcessPool)]
            for future in done.difference(broken):
                error = future.exception()
                yield running.pop(future)[0], failed(error) if error else future.result()
            if broken:
                return list(running.values())
    return []


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Give a pool of processes, which are ended at once where the sweep ends early."""
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), _follow_parent)
    try:
        yield pool
    except BaseException:
        for child in multiprocessing.active_children():
            if child not in others:
                child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep an interrupt waiting while a process is started, which so never sees one itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Let processes that are started meanwhile use one thread each, and no module that lies around."""
    before = {name: os.environ.get(name) for name in (*THREADS, ISOLATED)}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _follow_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


ENTRY = Executor(name="local", aliases=("processes",), title="processes of this machine", run=run)
