"""Bytes of a rank under DeepSpeed against its own engine: within 1%, most to a hundred-thousandth."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from planner.cost.estimate import estimate
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from tests.cases import every
from tests.helpers import ROOT
from tests.oracle.test_fsdp_memory import small_model
from tests.unit.cost_jobs import cluster, plan_of, runtime

with (ROOT / "tests/oracle/zero_memory/peaks.csv").open(encoding="utf-8") as table:
    ROWS = list(csv.DictReader(table))

PLAIN = {
    "attention_code": "plain", "fused_norm": True, "fused_activation": False, "fused_rope": False,
    "loss": "eager", "logit_bytes": 12.0, "checkpointing": "reentrant",
}  # fmt: skip
"""What the counted program does."""

STEP = "the optimizer's step"


def moments(row: dict[str, str]) -> dict[str, float]:
    """Return live bytes at each moment of the layout's only stage, and ``peak``, the most of them."""
    dp, accum, micro = int(row["dp"]), int(row["accum"]), int(row["mbs"])
    work = Workload(seq_len=int(row["seq"]), global_batch=micro * dp * accum)
    job = Job(small_model(row | {"tied": "0"}), cluster("dgx-h100"), dp, work)
    sizes = {"bucket_elements": "bucket", "prefetch_elements": "prefetch", "live_elements": "live"}
    traits = PLAIN | {name: float(row[key]) for name, key in (sizes | {"reuse_elements": "reuse"}).items()}
    traits |= {"flat_buckets": 1.0 + int(row["overlap"]), "gradient_dtype": row["gradients"]}
    plan = plan_of(job, micro_batch=micro, recompute=row["ac"], zero=int(row["zero"]), zero_shards=dp,
                   offload=row["offload"])  # fmt: skip
    deepspeed = replace(runtime("deepspeed", **traits), own_rules=lambda *_: [], setting_rules=lambda *_: [])
    stage = estimate(plan, job, deepspeed).stages[0]
    return dict(stage.moments) | {"peak": float(stage.allocated)}


def counted(row: dict[str, str], *names: str) -> int:
    return max(int(row[f"{name}_peak"]) for name in names)


@every("row", ROWS, ids=lambda row: row["id"])
def test_the_peak_is_the_engine_s(row: dict[str, str]) -> None:
    most = counted(row, "forward", "backward", "step")
    assert moments(row)["peak"] / most == pytest.approx(1.0, abs=0.01)


@every("row", ROWS, ids=lambda row: row["id"])
def test_the_optimizer_s_step_is_the_engine_s(row: dict[str, str]) -> None:
    """A rank's part of ZeRO-2's gradients begins and ends within parameters, anywhere in them."""
    assert moments(row)[STEP] / counted(row, "step") == pytest.approx(1.0, abs=0.008)


def test_most_rows_agree_to_a_hundred_thousandth() -> None:
    near = [
        abs(moments(row)["peak"] / counted(row, "forward", "backward", "step") - 1) < 1e-5 for row in ROWS
    ]
    assert sum(near) >= 0.75 * len(near)
