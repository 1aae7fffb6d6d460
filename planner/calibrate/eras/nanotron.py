"""Hugging Face nanotron."""

from __future__ import annotations

from typing import Final

from planner.calibrate.eras._era import Era

NANOTRON: Final = Era(
    "nanotron",
    r"nanotron",
    "nanotron",
    "Hugging Face nanotron",
    # scripts/scaling_benchmarks.py runs both modes of tensor parallelism, and what rank 0 holds tells which:
    # REDUCE_SCATTER in pipelines over nodes, else ALL_REDUCE.
    sequence_in="pipelines",
    # Its log is that of rank 0 (helpers.py, log_memory).
    counter="first-rank",
    # Where ten of twenty equal parts are a stage's share, its time is that of ten layers and not of eleven.
    stage_cut="shares",
)
