"""Rows of a run table without their results, for predictors that must not see them."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from planner.calibrate.runs.table import COLUMNS, Run
from planner.units import GIB

RESULTS: Final = (
    "step_time_s", "tokens_per_s_per_gpu", "tflops_per_gpu", "mfu_pct", "hfu_pct", "peak_mem_gib", "oom",
)  # fmt: skip
"""Columns that say how a run went."""
POINTERS: Final = ("ref", "mark")
"""Columns that say where the result is printed, or what is odd about it."""

TELLING: Final = re.compile(
    r"derived|stated|measured|printed|median|\bmin \d|\bmax \d|runs=|\bratio|check\b|flops?\b|\b[mh]fu\b"
    r"|/s(ec)?\b|/sec|sec/|samples|spread|status|\boom\b|out of memory|no result|memory|\bmem\b|speed|slow"
    r"|fast|throughput|regress|trust|inconsistent|seconds|\bms\b|\btps\b|time|gives|efficien|did not fit"
    r"|tracked|without sliding window \d"
)
"""Words of a part of ``notes`` that may tell a result."""
NUMBER: Final = re.compile(r"\d[\d,]*\.?\d*")
DIGITS: Final = 3
"""Digits from which a number can be recognised: 8 may be a degree, 8.18 is a time. [-]"""


def results_of(run: Run) -> tuple[float, ...]:
    """Return every number that tells how a run went, in the units in which people print it."""
    seconds, memory = run.step_time_s or 0.0, run.peak_mem_gib or 0.0
    tokens = (run.seq_len or 0) * (run.global_batch or 0)
    rate = run.tokens_per_s_per_gpu or (tokens / seconds / (run.num_gpus or 1) if seconds else 0.0)
    every = (
        seconds, 1000 * seconds, rate, rate * (run.num_gpus or 1), rate / (run.seq_len or 1),
        run.tflops_per_gpu or 0.0, run.mfu_pct or 0.0, run.hfu_pct or 0.0, memory, memory * GIB / 1e9,
        memory * GIB,
    )  # fmt: skip
    return tuple(value for value in every if value)


def _tells(part: str, results: Sequence[float]) -> bool:
    """Whether a part of notes tells a result, by its words or by a number."""
    if TELLING.search(part):
        return True
    numbers = (text.replace(",", "") for text in NUMBER.findall(part))
    long = [text for text in numbers if len(text.replace(".", "").strip("0")) >= DIGITS]
    return any(_is(text, value) for text in long for value in results)


def _is(text: str, value: float) -> bool:
    """Whether a number is a value, rounded or cut off at its last digit."""
    digit = 10.0 ** -len(text.partition(".")[2])
    return abs(float(text) - value) < digit


def blind_notes(run: Run) -> str:
    """Return the parts of a run's notes that say how it was run, not how it went.

    Examples
    --------
    >>> notes = "task=lora; compile on; derived=1001 tokens; 8.18 on the page; attention over 8192"
    >>> blind_notes(Run(2, "a", notes=notes, step_time_s=8.18))
    'task=lora; compile on; attention over 8192'
    """
    results = results_of(run)
    parts = (part.strip() for part in run.notes.split(";"))
    return "; ".join(part for part in parts if part and not _tells(part.lower(), results))


def usual_counters(runs: Sequence[Run]) -> dict[str, str]:
    """Return each source's usual counter of memory, so that the cell does not tell which runs ended well."""
    counters: dict[str, Counter[str]] = {}
    for run in runs:
        if run.memory_kind:
            counters.setdefault(run.source, Counter())[run.memory_kind] += 1
    return {source: kinds.most_common(1)[0][0] for source, kinds in counters.items()}


def blinded(runs: Sequence[Run]) -> Iterator[Run]:
    """Yield the runs without their results, in an order that says nothing about them: that of hashed keys."""
    counters = usual_counters(runs)
    blank = {name: getattr(Run(0, ""), name) for name in (*RESULTS, *POINTERS)}
    for run in sorted(runs, key=lambda one: hashlib.sha256(one.id.encode()).hexdigest()):
        kind = run.memory_kind or counters.get(run.source, "")
        yield run.with_values(blank | {"notes": blind_notes(run), "memory_kind": kind})


def cells(run: Run) -> dict[str, object]:
    """Return a run as a line of a run table: every column, blank where it says nothing."""
    return {name: "" if (value := getattr(run, name)) is None else value for name in COLUMNS}
