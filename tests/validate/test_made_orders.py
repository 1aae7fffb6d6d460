"""PyTorch's own reader takes the orders that are made for plans, as they are meant, and never waits for ever.

VALIDATE_PYTHON names an interpreter with torch; `make validate` makes one.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from planner.cost.estimate import estimate
from planner.plan import Plan
from planner.report.made_order import MadeOrder, made_order
from planner.runtimes.torchtitan import ENTRY
from tests.unit.runner_jobs import DENSE, job
from tests.validate.ask import PYTHON

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("torch.distributed.pipelining", "no interpreter with torch"),
]

PLANS = (
    Plan(pp=4, dp=2, num_microbatches=8, zero=2, zero_shards=2, schedule="1f1b"),
    Plan(pp=4, dp=2, num_microbatches=6, zero=2, zero_shards=2, schedule="zb-1p", stage_layers=(9, 9, 8, 6)),
    Plan(pp=2, vpp=2, dp=4, num_microbatches=5, zero=2, zero_shards=4, schedule="breadth-first"),
    Plan(pp=4, vpp=2, dp=2, num_microbatches=9, zero=2, zero_shards=2, schedule="zb-v"),
    Plan(pp=8, vpp=2, num_microbatches=16, schedule="interleaved-1f1b", recompute="full"),
)


def made_for(plan: Plan) -> MadeOrder:
    work = job(DENSE, gpus=8, seq_len=2048, global_batch=int(plan.num_microbatches * plan.dp))
    made = made_order(estimate(plan, work, ENTRY), 2.0, 0.05)
    assert made is not None
    return made


def question(made: MadeOrder, path: Path) -> dict[str, object]:
    plan = made.answer.plan
    path.write_text(made.text, encoding="utf-8")
    stages = int(plan.pp * plan.vpp)
    return {"file": str(path), "ranks": int(plan.pp), "stages": stages, "microbatches": plan.num_microbatches}


def test_made_orders_are_read_as_meant(tmp_path: Path) -> None:
    made = [made_for(replace(plan, tp=1.0)) for plan in PLANS]
    lines = [json.dumps(question(one, tmp_path / f"{place}.csv")) for place, one in enumerate(made)]
    script = Path(__file__).with_name("check_order.py")
    asked = subprocess.run(
        [PYTHON, script], input="\n".join(lines), capture_output=True, text=True, check=True, timeout=300
    )
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    assert len(answers) == len(made)
    for one, answer in zip(made, answers, strict=True):
        assert "refused" not in answer, answer["refused"]
        assert answer["derived"]["ranks"] == list(one.synthesis.problem.ranks)
        assert answer["derived"]["passes"] == [[list(item) for item in row] for row in one.synthesis.orders]
