"""Copies to the host where accelerators share a link with the network card are told to be in doubt."""

from __future__ import annotations

import re

import pytest

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.shared_link import unproven_link
from planner.runtimes import runtimes
from planner.runtimes.family import Job


@pytest.mark.parametrize(
    ("hardware", "gpus", "offload", "told"),
    [
        ("dgx-h100", 16, "activations:8", True),
        ("dgx-h100", 16, "modules:core_attn", True),
        ("dgx-h100", 16, "none", False),
        ("dgx-h100", 8, "activations:8", False),
        ("gb200-nvl72", 144, "activations:8", False),
    ],
)
def test_copies_across_nodes_are_in_doubt(hardware: str, gpus: int, offload: str, told: bool) -> None:
    """By as long as an eighth of data parallelism's bytes takes on that link; of a rack hardly any leave."""
    batch = float(gpus)
    job = Job(
        load_model("llama3-8b"), load_hardware(hardware), gpus, Workload(seq_len=2048, global_batch=gpus)
    )
    plan = Plan(dp=batch, zero=1, zero_shards=batch, offload=offload)
    answer = estimate(plan, job, runtimes()["megatron-lm"])
    found = unproven_link(answer)
    assert bool(found) == told
    if told:
        (share,) = re.findall(r"up to (\d+)%", found[0])
        assert int(share) == round(100 * answer.sent.dp / 8 / 63e9 / answer.step)
