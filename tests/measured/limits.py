"""What each source of the extract may be wrong by: one table, whose numbers only tighten.

``python -m tests.measured.limits`` prints what the table would be for the present predictions.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.lab.accuracy.lines import Line, line_of
from tests.lab.accuracy.runs import accuracy_of, read_folder

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
    # 2.1 to 2.2%: what gathered logits keep cached, and no spread of memory of its own; one false OOM less.
    "aleph-alpha-layouts": Limit(0.022, 0.043, rank=0.99, rank_in_groups=0.97, missed=2, in_vain=3),
    "llm-foundry-mpt": Limit(0.022, 0.033, rank=0.99),
    # 90% within 8.5 and no longer 7.8%: experts refitted to 100 runs, of which 21 have joined
    # since and are not in the extract; the whole table is 4.05 and 4.07% off.
    "megatron-bridge": Limit(0.038, 0.085, rank=0.99),
    "bigscience-bloom-prequel": Limit(
        0.034, 0.064, rank=0.91, rank_in_groups=0.62, memory=0.037, missed=1, picks=1
    ),
    "distflashattn": Limit(0.039, 0.078, rank=0.99, rank_in_groups=0.99),
    # 1.0 to 1.3%, order 0.97 to 0.99: messages between nodes have the network's time, no longer NVLink's.
    # Memory 1.8 to 1.9%: its scripts leave dropout on, whose masks are kept.
    "zero-bubble": Limit(0.014, 0.029, rank=0.99, rank_in_groups=0.99, memory=0.019),
    # 3.2 to 3.8%: messages between nodes, the kernels around adapters of its LoRA runs, and fp8 with delayed
    # scales, the one recipe of its time.
    "nemo-24.07": Limit(0.039, 0.078, rank=0.98, rank_in_groups=0.86),
    "megatron-sc21": Limit(0.027, 0.043, rank=0.99),
    "megatron-readme-2020-09": Limit(0.034, 0.101, rank=0.98),
    # 4.8 to 4.9% here, 9.8 to 9.4% of the whole table: that fit of experts. 4.7 to 4.8%: rates of Hopper
    # fitted without those of early software on Blackwell; the one run in bf16 became a tenth too fast. Memory
    # 3.3 to 2.5%: masters of that run are whole, since its recipe of low bits is left as it is.
    "bridge-ablations": Limit(0.049, 0.11, rank=0.96, rank_in_groups=0.93, memory=0.025, missed=3),
    # 3.7 to 4.0%: the softmax of odd numbers of heads is split, as its code has it.
    "megatron-readme-a100-2021-01": Limit(0.04, 0.053, rank=0.99),
    "megatron-readme-a100-2021-04": Limit(0.019, 0.032, rank=0.99),
    "torchtitan-h100-202412": Limit(0.046, 0.085, rank=0.99, memory=0.021),
    "litgpt-thunder": Limit(0.08, 0.182, rank=0.88, memory=0.089),
    # 1.4 to 2.7% here, 7.7 to 4.6% of the whole table: gathers run again, and no constant is fitted
    # to runs with tensor parallelism any more.
    "torchtitan-asynctp-202506": Limit(0.027, 0.049, rank=0.99, rank_in_groups=0.99),
    # 5.2 to 5.9%, memory 2.3 to 2.4%: two constants fewer for torchtitan, which bring its other sources
    # nearer, and all of them out of model from 6.5 to 3.6%.
    "torchtitan-paper": Limit(0.059, 0.105, rank=0.99, memory=0.024),
    "ibm-fms-fsdp": Limit(0.037, 0.052, rank=0.99),
    # 1.19 to 1.25%: the same.
    "torchtitan-2024": Limit(0.013, 0.021, rank=0.89, rank_in_groups=0.49),
    "megatron-readme-a100-2022-05": Limit(0.031, 0.057, rank=0.99),
    "torchtitan-h200-202506": Limit(0.024, 0.028, memory=0.01),
    # 1.9 to 2.1%: one run, refitted with Zero Bubble's beside it.
    "megatron-readme-175b-example": Limit(0.021, 0.021),
    # Nearly all of it is runs that stalled on fewer than 64 nodes: half of the rows are within 9%.
    "ultrascale-playbook": Limit(0.184, 0.508, rank=0.93, rank_in_groups=0.87, memory=0.126),
    # Models so small that hosts are timed, each under other flags: half of the rows are within 7.4%.
    "megatron-lm-golden": Limit(0.141, 0.4, rank=0.9, memory=0.042),
    # Fine-tuning, products in 4 bits, and MI300X, of which no other run is known.
    "mlperf-training": Limit(0.036, 0.058, rank=0.97, memory=0.007),
}
"""Each source of the extract; a change that makes one worse says so here, and why."""

APART = frozenset({"ultrascale-playbook", "megatron-lm-golden", "mlperf-training"})
"""Sources whose own lines say all there is to say of them: single steps, a tenth of which stalled, tests of
tiny models, and submissions to a contest in software of their own."""

WHOLE_TIMED = 802
"""Unmarked rows with a time; one is marked since, by its recipe (`tests/measured/runs/README.md`). [-]"""
WHOLE_ERROR = 0.0295
"""Mean absolute error of step time over them. [-]"""
WHOLE_RIGHT = 0.99
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
