"""Low-bit copies that Transformer Engine keeps of sharded 16-bit weights: whole, on every rank."""

from __future__ import annotations

import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.units import GIB
from tests.cases import every


def priced(precision: str, zero: int, **traits: object) -> Estimate:
    work = Workload(seq_len=8192, global_batch=64, precision=precision)
    job = Job(load_model("llama3-70b"), load_hardware("gb200-nvl72"), 64, work)
    plan = Plan(dp=64.0, zero=zero, zero_shards=64.0, num_microbatches=1.0)
    return estimate(plan, job, runtimes()["megatron-bridge"].with_traits(**traits))


@every(("precision", "each"), [("mxfp8", 2.0), ("nvfp4", 1.125), ("fp8", 1.0), ("bf16", 0.0)])
def test_copies_of_sharded_weights_rest_whole(precision: str, each: float) -> None:
    """module/linear.py keeps them in ``_fp8_workspaces``: 68.5 billion weights of products, head aside."""
    whole = priced(precision, 3, low_bit_weights="beside").stages[0].weights
    sharded = 2 * load_model("llama3-70b").params / 64
    assert (whole - sharded) / GIB == pytest.approx(each * 68.5e9 / GIB, rel=0.05, abs=1e-9)


def test_weights_that_are_low_bit_themselves_are_sharded() -> None:
    alone = priced("fp8", 3, low_bit_weights="alone").stages[0].weights
    assert alone < 3 * load_model("llama3-70b").params / 64
