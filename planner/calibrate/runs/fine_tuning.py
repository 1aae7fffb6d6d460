"""What a run fine-tunes, how much of the model learns, and the documents its sequences are packed from.

Columns say it, or words in ``notes``; of what neither says, the era of its software tells what is usual.
"""

from __future__ import annotations

import re
from typing import Final

from planner.calibrate.eras import Era
from planner.calibrate.runs.table import COLUMNS, Run
from planner.calibrate.runs.tuning_cells import MOST_IN_A_CELL

NAMED: Final = ("method", "lora_rank", "lora_targets", "document_tokens")
"""Columns that ``notes`` may hold as ``name=value``."""

WHOLE: Final = re.compile(r"attention over the whole sequence|return_cu_seqlens?[ =:(]*false")
"""Words of packed sequences through which attention reaches all the same."""


def said_in_notes(run: Run) -> dict[str, object]:
    """Return the columns about fine-tuning that ``notes`` fill where the row leaves them blank."""
    notes = run.notes.lower()
    said: dict[str, object] = {}
    for name in NAMED:
        found = re.search(rf"\b{name}=([\w+.-]+)", notes) if name in notes else None
        if found is None or getattr(run, name):
            continue
        try:
            said[name] = COLUMNS[name][0](found[1])
        except ValueError:
            continue
    if not run.document_tokens and WHOLE.search(notes):
        said["document_tokens"] = run.seq_len or MOST_IN_A_CELL
    if not (run.method or said.get("method")) and "task=lora" in notes:
        said["method"] = "lora"
    return said


def task_of(run: Run) -> str:
    """Return what a run does: ``pretrain``, ``sft`` or ``lora``.

    Adapters are trained in fine-tuning; whole models are fine-tuned where ``notes`` say ``task=sft``.
    """
    if run.method not in ("", "full"):
        return "lora"
    return "sft" if "task=sft" in run.notes.lower() else "pretrain"


def fine_tuning(run: Run, era: Era) -> tuple[str, dict[str, object]]:
    """Return the task of a run and what a fine-tuning run's blanks mean to its era."""
    task = task_of(run)
    if task == "pretrain":
        return task, {}
    return task, {
        name: value
        for name, value in era.blanks.fine_tuning.items()
        if not getattr(run, name) and (name == "document_tokens" or task == "lora")
    }
