"""What really became of the rows of a run table, as predictors are judged by it."""

from __future__ import annotations

from collections.abc import Iterable

from planner.calibrate.runs.catalogue import Catalogue
from planner.calibrate.runs.conventions import disagreement
from planner.calibrate.runs.defaults import Skip, prepare
from planner.calibrate.runs.table import Fault, Run
from planner.calibrate.scores import GROUP_KEYS, Scored


def truths(rows: Iterable[Run | Fault], catalogue: Catalogue, untold: list[Skip]) -> list[Scored]:
    """Return rows with what was measured; what a row does not tell goes to ``untold`` with the reason.

    A row need not be one that the planner can price. Its seconds are its step time, or follow from tokens
    per second and the batch, else from FLOP/s or MFU of a known convention, for which its model must be
    known. Two printed speeds that contradict each other leave it without a time.
    """
    found = []
    for row in rows:
        if isinstance(row, Fault):
            untold.append(Skip(row.id or f"row {row.line}", row.reason))
            continue
        truth, reason = truth_of(row, catalogue)
        told = (truth.measured_s, truth.measured_gib, truth.measured_oom)
        nothing = "" if any(value is not None for value in told) else "neither time, memory nor outcome"
        if reason or nothing:
            untold.append(Skip(row.id, reason or nothing))
        found += [] if nothing else [truth]
    return found


def truth_of(run: Run, catalogue: Catalogue) -> tuple[Scored, str]:
    """Return what was measured, and why it has no time where it has none.

    A run that prints a speed or a memory did not run out of memory, unless it says so.
    """
    seconds, tokens, reason = _seconds(run, catalogue)
    speeds = (run.step_time_s, run.tokens_per_s_per_gpu, run.tflops_per_gpu, run.mfu_pct, run.peak_mem_gib)
    ran = False if any(speeds) else None
    return Scored(
        id=run.id,
        source=run.source,
        key=tuple(getattr(run, name) for name in GROUP_KEYS),
        measured_s=seconds,
        predicted_s=None,
        naive_s=None,
        tokens=tokens,
        measured_gib=run.peak_mem_gib,
        predicted_gib=None,
        memory_kind=run.memory_kind,
        measured_oom=bool(run.oom) if run.oom is not None else ran,
        predicted_oom=None,
        mark=run.mark,
    ), reason


def _seconds(run: Run, catalogue: Catalogue) -> tuple[float | None, float, str]:
    """Return seconds of a step, its tokens for each accelerator, and why there are none."""
    tokens = (run.seq_len or 0) * (run.global_batch or 0) / (run.num_gpus or 1)
    if told := disagreement(run):
        return None, tokens, f"row {run.line}: {told}"
    if run.step_time_s:
        return run.step_time_s, tokens, ""
    if run.tokens_per_s_per_gpu and tokens:
        return tokens / run.tokens_per_s_per_gpu, tokens, ""
    if not any((run.tokens_per_s_per_gpu, run.tflops_per_gpu, run.mfu_pct)):
        return None, tokens, ""
    ready = prepare(run, catalogue)
    if isinstance(ready, Skip):
        return None, tokens, ready.reason
    filled = ready.run
    tokens = (filled.seq_len or 0) * (filled.global_batch or 0) / (filled.num_gpus or 1)
    return ready.measured.seconds, tokens, ""
