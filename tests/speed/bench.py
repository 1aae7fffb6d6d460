"""Speed of pricing and searching, side by side, and accuracy on measured runs.

``python -m tests.speed.bench`` prints all of it; the variable ``RUNS_DIR`` names a folder of run tables to
use instead of the extracts that the tests carry.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.legal import all_rules
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.candidates import ScanReport
from planner.search.legality import named, plan_rows
from planner.search.request import SearchRequest, objective_column, scan_of
from planner.search.scan import Scan
from tests.helpers import user_environment
from tests.speed.accuracy import accuracy_lines, runs_folder
from tests.speed.rows import row_lines
from tests.speed.startup import start_seconds

GPT3 = ("gpt3-175b", "dgx-a100-80gb", 2048, 1536)
LLAMA = ("llama3.1-405b", "dgx-h100", 8192, 2048)
SEARCHES = ((*GPT3, 512), (*GPT3, 1024), (*GPT3, 4096), (*LLAMA, 512), (*LLAMA, 16384))
"""Model, cluster, sequence length, sequences in a step, accelerators."""

REPEATS = 3
"""Scans and cold starts, of which the fastest counts."""

SAMPLE = 300
"""Plans that are priced one by one."""


def gpt3_request(gpus: int) -> SearchRequest:
    """Return the search for GPT-3 175B for Megatron-LM."""
    name, cluster, seq_len, batch = GPT3
    work = Workload(seq_len=seq_len, global_batch=batch)
    return SearchRequest(
        load_model(name), (load_hardware(cluster),), (gpus,), work, (runtimes()["megatron-lm"],)
    )


@dataclass(frozen=True)
class Columns:
    """A scan of the whole space in columns, with its time. [s]"""

    scan: Scan
    report: ScanReport
    elapsed: float


def priced_in_columns(request: SearchRequest) -> Columns:
    """Scan the space of a request, the making of the space included."""
    started = time.perf_counter()
    job, runtime = next(request.jobs())
    scan = scan_of(request, job, runtime)
    report = scan.run(objective_column("time"))
    return Columns(scan, report, time.perf_counter() - started)


def random_rows(scan: Scan, seed: int = 1) -> Iterator[Plan]:
    """Yield structurally legal plans of a scan, one by one, at random over degrees and techniques."""
    draw = np.random.default_rng(seed)
    names = list(product(scan.choices.passes(), scan.choices.states()))
    while True:
        row = np.array([draw.integers(scan.space.size)])
        passes, states = names[int(draw.integers(len(names)))]
        yield named(plan_rows(scan.space.rows, row), passes, states).row((0,))


@dataclass(frozen=True)
class Loop:
    """What a plain loop over the same plans costs. [s]

    ``rules`` for each structurally legal combination, ``price`` for each that obeys all rules.
    """

    rules: float
    price: float


def timed_loop(scan: Scan, job: Job) -> Loop:
    """Check the rules of random combinations and price the legal ones, as the command ``estimate`` does."""
    checked = priced = 0
    rule_seconds = price_seconds = 0.0
    for plan in random_rows(scan):
        started = time.perf_counter()
        broken = violations(all_rules(plan, case_of(plan, job, scan.runtime)))
        rule_seconds += time.perf_counter() - started
        checked += 1
        if broken:
            continue
        started = time.perf_counter()
        estimate(plan, job, scan.runtime)
        price_seconds += time.perf_counter() - started
        priced += 1
        if priced == SAMPLE:
            break
    return Loop(rule_seconds / checked, price_seconds / priced)


def differing_bits(columns: Columns, job: Job) -> int:
    """Count the scan's candidates whose time, bound or memory differ in any bit from a single estimate's."""
    candidates = [*columns.report.best[:100], *columns.report.of("split")[:100]]
    wrong = 0
    for candidate in candidates:
        known = estimate(candidate.plan, job, columns.scan.runtime)
        found = (candidate.value, candidate.bound, candidate.total_bytes)
        wrong += found != (known.step, known.bound, known.peak)
    return wrong


def pricing_lines(gpus: int = 1024) -> Iterator[str]:
    """Yield the figures of pricing GPT-3 175B: in columns, one by one, and as an exhaustive loop."""
    request = gpt3_request(gpus)
    scans = [priced_in_columns(request) for _ in range(REPEATS)]
    columns = min(scans, key=lambda scan: scan.elapsed)
    seconds = min(scan.report.seconds for scan in scans)
    job, _ = next(request.jobs())
    loop = timed_loop(columns.scan, job)
    report = columns.report
    valid = report.valid
    combinations = len(columns.scan.choices.passes()) * len(columns.scan.choices.states())
    structural = columns.scan.space.size * combinations
    hours = (structural * loop.rules + valid * loop.price) / 3600
    yield f"GPT-3 175B on {gpus:,} A100, Megatron-LM, every technique; one core"
    yield f"  combinations in the grid                   {report.enumerated:>14,}"
    yield f"  legal plans, each priced in full           {valid:>14,}"
    yield f"  in columns: layers and pricing, plans/s    {valid / seconds:>14,.0f}   (1,000,000)"
    yield f"  in columns: with space, rules and ranking  {valid / columns.elapsed:>14,.0f}"
    yield f"  one by one, the same code, plans/s         {1 / loop.price:>14,.0f}"
    yield f"  columns over one by one                    {valid / columns.elapsed * loop.price:>14,.0f} x"
    yield f"  the whole search of the space, s           {columns.elapsed:>14.2f}"
    yield f"  the same by an exhaustive loop, h          {hours:>14.2f}   (from {SAMPLE} plans)"
    yield f"  candidates with other bits than alone      {differing_bits(columns, job):>14,}   (of 200; 0)"


@dataclass(frozen=True)
class Cold:
    """One command from a cold start: wall and processor time [s], and most memory [byte]."""

    wall: float
    processor: float
    memory: float


PEAK = "peak.txt"
TOLD = f"""
import atexit, runpy, sys
def tell():
    with open("/proc/self/status") as lines, open({PEAK!r}, "w") as file:
        file.write(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
atexit.register(tell)
sys.argv[0] = "planner"
runpy.run_module("planner", run_name="__main__")
"""
"""The planner, which writes at its end how many KiB it had at most.

What `wait4` says of a process starts at what its parent had, here a test run of hundreds of MiB.
"""


def cold(arguments: list[str], folder: Path) -> Cold:
    """Run the planner in a process of its own."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", TOLD, *arguments],
        cwd=folder,
        env=user_environment(folder),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"planner {' '.join(arguments)} ended with {process.returncode}")
    memory = 1024.0 * float((folder / PEAK).read_text())
    return Cold(wall, usage.ru_utime + usage.ru_stime, memory)


def search_arguments(model: str, cluster: str, seq_len: int, batch: int, gpus: int) -> list[str]:
    """Return the command line of a search."""
    job = ["search", model, "--hardware", cluster, "--gpus", str(gpus)]
    return [*job, "--seq-len", str(seq_len), "--global-batch", str(batch)]


def search_lines(folder: Path) -> Iterator[str]:
    """Yield the times of whole searches from a cold start, the best of some repeats."""
    yield "searches from a cold start                    wall s    processor s    MiB   (2 s, 500 MB)"
    known: dict[tuple[str, int], float] = {}
    for model, cluster, seq_len, batch, gpus in SEARCHES:
        arguments = search_arguments(model, cluster, seq_len, batch, gpus)
        runs = [cold(arguments, folder) for _ in range(REPEATS)]
        wall, processor = min(run.wall for run in runs), min(run.processor for run in runs)
        memory = max(run.memory for run in runs)
        known[model, gpus] = processor
        figures = f"{wall:>9.2f} {processor:>14.2f} {memory / 2**20:>6.0f}"
        yield f"  {model:<16} {gpus:>6,} x {cluster:<14} {figures}"
    ratio = known[LLAMA[0], 16384] / known[LLAMA[0], 512]
    yield f"  405B: processor time on 16,384 over 512    {ratio:>9.2f}   (at most 2)"


def start_lines(folder: Path) -> Iterator[str]:
    """Yield the times of the smallest commands."""
    *_, (empty, help_, found) = start_seconds(folder)
    yield f"planner --help over an empty typer application {help_ / empty:>7.2f}   (at most 1.2)"
    yield f"planner search llama2-7b on 8 accelerators, s  {found:>7.2f}   (under 1)"
    yield f"  over the help of an empty application        {found / empty:>7.2f}   (at most 8)"


def main() -> None:
    """Print everything."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for lines in (
            pricing_lines(),
            search_lines(folder),
            start_lines(folder),
            row_lines(),
            accuracy_lines(runs_folder()),
        ):
            for line in lines:
                print(line, flush=True)
            print()


if __name__ == "__main__":
    main()
