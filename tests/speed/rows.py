"""A table of runs of which no two are alike, drawn from a seed, and how fast validate prices it."""

from __future__ import annotations

import csv
import io
import random
import time
from collections.abc import Iterator

from planner.calibrate.constants import shipped_values
from planner.calibrate.overlay import predictions_of
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.table import read_runs
from planner.calibrate.validate import json_parts, validate
from planner.cli.validate import rare_collections

GPUS = ("a100-80gb-sxm", "a100-40gb-sxm", "h100-80gb-sxm", "h200-141gb", "b200-180gb")
MEGATRON = ("megatron-lm", "megatron-bridge", "nemo", "megatron-deepspeed")
FRAMEWORKS = (*MEGATRON, "deepspeed", "fsdp", "torchtitan")
COUNT = 3000
"""Rows of the table. [-]"""
SECONDS = 1e5
"""Of a step, long enough for any row; how near a price comes does not matter here. [s]"""


def unlike_row(draw: random.Random, number: int) -> dict[str, object]:
    """Return a run whose model, degrees and batch are drawn."""
    framework, dims = draw.choice(FRAMEWORKS), draw.choice((64, 80, 96, 128))
    heads, layers = draw.choice((16, 24, 32, 40, 48, 64, 96)), draw.choice((16, 24, 32, 40, 48, 64, 80, 96))
    split = framework in MEGATRON
    tp, pp = (draw.choice((1, 2, 4, 8)), draw.choice((1, 1, 2, 4, 8))) if split else (1, 1)
    dp, micro = draw.choice((1, 2, 4, 8, 16, 32)), draw.choice((1, 2, 4))
    gated = draw.randint(0, 1)
    return {
        "id": f"r{number}", "source": f"s{number % 10}", "gpu": draw.choice(GPUS), "gpus_per_node": 8,
        "num_gpus": tp * pp * dp, "model": f"m{number}", "num_layers": layers, "hidden": heads * dims,
        "ffn_hidden": heads * dims * (draw.choice((2, 3, 5)) if gated else 4), "gated_mlp": gated,
        "heads": heads, "kv_heads": draw.choice((heads, heads // 2, 8)), "head_dim": dims,
        "vocab": draw.choice((32000, 50304, 51200, 128256, 151936)), "tied_embeddings": draw.randint(0, 1),
        "seq_len": draw.choice((1024, 2048, 4096, 8192)), "framework": framework, "tp": tp, "pp": pp,
        "vpp": 1, "cp": 1, "dp": dp, "micro_batch": micro,
        "global_batch": dp * micro * pp * draw.choice((1, 2, 4, 8, 16)),
        "recompute": draw.choice(("none", "full")), "precision": "bf16", "step_time_s": SECONDS,
    }  # fmt: skip


def unlike_rows(count: int = COUNT, seed: int = 1) -> str:
    """Return the table as CSV, no two rows of which are alike but for their names."""
    draw, known = random.Random(seed), set()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(unlike_row(random.Random(0), 0)))
    writer.writeheader()
    while len(known) < count:
        row = unlike_row(draw, len(known))
        shape = tuple(value for name, value in row.items() if name not in ("id", "source", "model"))
        if shape not in known:
            known.add(shape)
            writer.writerow(row)
    return text.getvalue()


def priced_rows_a_second(table: str) -> tuple[int, float]:
    """Return how many rows of a table were priced, and rows a second of processor time. [-, 1/s]"""
    started = time.process_time()
    with rare_collections():
        runs = read_runs(io.StringIO(table, newline=""))
        result = validate(runs.rows, shipped_catalogue(), predictions_of(shipped_values()))
        for _ in json_parts(result):
            pass
    return len(result.outcomes), result.rows / (time.process_time() - started)


def row_lines() -> Iterator[str]:
    """Yield the rows a second of ``planner validate`` where no two rows are alike, the best of three."""
    table = unlike_rows()
    priced, _ = priced_rows_a_second(table)
    speed = max(priced_rows_a_second(table)[1] for _ in range(3))
    yield f"planner validate, {COUNT:,} rows of which no two are alike; one core, start-up apart"
    yield f"  priced                                     {priced:>14,}"
    yield f"  rows a second of processor time            {speed:>14,.0f}   (1,000)"
