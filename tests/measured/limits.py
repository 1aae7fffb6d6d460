"""What each source of the extract may be wrong by: one table, whose numbers only tighten.

``python -m tests.measured.limits`` prints what the table would be for the present predictions.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from planner.calibrate.accuracy import Line, accuracy_of, line_of, read_folder

RUNS = Path(__file__).parent / "runs"
ROOM = 1.03
"""A limit over what is measured. [-]"""


@dataclass(frozen=True)
class Limit:
    """What a source may be wrong by, just above what it is; None where it has no such rows.

    Parameters
    ----------
    error, p90 : float
        Mean and 90th percentile of the absolute error of step time. [-]
    rank : float or None
        Least rank correlation of tokens per second over the source. [-]
    rank_in_groups : float or None
        Least mean rank correlation in its groups. [-]
    memory : float or None
        Mean absolute error of peak memory. [-]
    missed, in_vain, picks : int
        Runs out of memory that were said to fit, the other way round, and picks that ran out. [-]
    """

    error: float
    p90: float
    rank: float | None = None
    rank_in_groups: float | None = None
    memory: float | None = None
    missed: int = 0
    in_vain: int = 0
    picks: int = 0


LIMITS: dict[str, Limit] = {
    "aleph-alpha-layouts": Limit(0.031, 0.069, rank=0.98, rank_in_groups=0.95, missed=6, in_vain=2),
    "llm-foundry-mpt": Limit(0.026, 0.049, rank=0.99),
    "megatron-bridge": Limit(0.066, 0.122, rank=0.98, in_vain=4),
    "bigscience-bloom-prequel": Limit(
        0.042, 0.092, rank=0.88, rank_in_groups=0.57, memory=0.041, missed=1, picks=1
    ),
    "distflashattn": Limit(0.109, 0.207, rank=0.97),
    "zero-bubble": Limit(0.04, 0.086, rank=0.99, rank_in_groups=0.97, memory=0.018),
    "nemo-24.07": Limit(0.057, 0.108, rank=0.97, rank_in_groups=0.86),
    "megatron-sc21": Limit(0.06, 0.133, rank=0.97),
    "megatron-readme-2020-09": Limit(0.041, 0.071, rank=0.98),
    "bridge-ablations": Limit(0.063, 0.129, rank=0.98, rank_in_groups=0.97, memory=0.121, missed=3, picks=1),
    "megatron-readme-a100-2021-01": Limit(0.05, 0.08, rank=0.99),
    "megatron-readme-a100-2021-04": Limit(0.029, 0.058, rank=0.99),
    "torchtitan-h100-202412": Limit(0.054, 0.129, rank=0.99, memory=0.026),
    "litgpt-thunder": Limit(0.163, 0.285, rank=0.79, memory=0.129),
    "torchtitan-asynctp-202506": Limit(0.104, 0.255, rank=0.14, rank_in_groups=0.44),
    "torchtitan-paper": Limit(0.045, 0.093, rank=0.99, memory=0.027),
    "ibm-fms-fsdp": Limit(0.052, 0.07, rank=0.99),
    "torchtitan-2024": Limit(0.008, 0.015, rank=0.89, rank_in_groups=0.49),
    "megatron-readme-a100-2022-05": Limit(0.065, 0.101, rank=0.99),
    "torchtitan-h200-202506": Limit(0.019, 0.025, memory=0.01),
    "megatron-readme-175b-example": Limit(0.017, 0.017),
}
"""Each source of the extract; a change that makes one worse says so here, and why."""

WHOLE_TIMED = 803
"""Unmarked rows with a time. [-]"""
WHOLE_ERROR = 0.049
"""Mean absolute error of step time over them. [-]"""
WHOLE_RIGHT = 0.983
"""Share of fit-or-not calls that are right, over all unmarked rows. [-]"""


def proposed(line: Line) -> str:
    """Return a line of the table as the present predictions would have it."""
    counts = line.outcomes
    parts = [_above(line.error or 0.0), _above(line.p90 or 0.0)]
    for name, value in (("rank", line.source_rank), ("rank_in_groups", line.rank)):
        parts += [] if value is None else [f"{name}={math.floor((value - 0.004) * 100) / 100:g}"]
    parts += [] if line.memory_error is None else [f"memory={_above(line.memory_error)}"]
    numbers = {
        "missed": counts["false_negative"],
        "in_vain": counts["false_positive"],
        "picks": line.picks_oom,
    }
    parts += [f"{name}={value}" for name, value in numbers.items() if value]
    return f'    "{line.name}": Limit({", ".join(parts)}),'


def _above(value: float) -> str:
    return f"{math.ceil(value * ROOM * 1000) / 1000:g}"


if __name__ == "__main__":
    found = accuracy_of(read_folder(RUNS))
    whole = line_of("all", found.ordinary)
    table = "\n".join(map(proposed, found.lines("source")))
    sys.stdout.write(f"{table}\n{whole.timed} {whole.error} {whole.right}\n")
