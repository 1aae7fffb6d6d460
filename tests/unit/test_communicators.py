"""Process groups of a rank, against the ranks of grids that are numbered as Megatron Core numbers them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.estimate import Estimate, estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.communicators import communicators_line, communicators_record, process_groups
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.units import GIB, MIB

DENSE = Plan(tp=2.0, cp=2.0, pp=2.0, dp=2.0, zero=1, zero_shards=4.0, num_microbatches=8.0)
MIXED = replace(DENSE, ep=4.0, sequence_parallel=True)


def priced(plan: Plan, model: str, runtime: str = "megatron-lm", gpus: int = 16) -> Estimate:
    work = Workload().model_copy(update={"global_batch": 16})
    return estimate(plan, Job(load_model(model), load_hardware("dgx-h100"), gpus, work), runtimes()[runtime])


def ranks_with_the_first(grid: dict[str, int], axes: set[str]) -> int:
    """Count the ranks that differ from rank 0 along ``axes`` alone; the grid's last axis is outermost."""
    places = np.indices([*grid.values()][::-1]).reshape(len(grid), -1)
    apart = [place for name, place in zip([*grid][::-1], places, strict=True) if name not in axes]
    return int(np.sum(np.all(np.array(apart) == 0, axis=0))) if apart else places.shape[1]


def test_the_groups_of_experts_and_attention_are_those_of_two_grids_of_ranks() -> None:
    attention = {"tp": 2, "cp": 2, "dp": 2, "pp": 2}
    experts = {"etp": 1, "ep": 4, "dp": 2, "pp": 2}
    expected = {
        "world": 16,
        "embedding": 2,
        "optimizer instance": 16,
        **{
            name: ranks_with_the_first(attention, set(name.split("-")))
            for name in ("dp-cp", "dp", "cp", "tp-pp", "tp", "pp", "tp-dp-cp", "tp-dp", "tp-cp")
        },
        **{name: ranks_with_the_first(experts, set(name.split("-"))) for name in ("ep", "etp-ep")},
        "etp-ep-pp": ranks_with_the_first(experts, {"etp", "ep", "pp"}),
        "expert dp": ranks_with_the_first(experts, {"dp"}),
    }
    found = {group.name: group.ranks for group in process_groups(priced(MIXED, "qwen3-30b-a3b"))}
    assert found == expected


def test_what_a_dense_step_sends_in_and_what_nccl_takes_for_it() -> None:
    """World 16, dp-cp 4, cp 2, tp 2, pp 2 and the optimizer's 16; Llama 3 has no tied embedding."""
    answer = priced(DENSE, "llama3-8b")
    speaking = {group.name for group in process_groups(answer) if group.speaks}
    assert speaking == {"world", "dp-cp", "cp", "tp", "pp", "optimizer instance"}
    assert communicators_record(answer)["gib"] == pytest.approx((3 * 688 + 3 * 544) * MIB / GIB)
    assert "makes 3.6 GiB;" in communicators_line(answer)


def test_interleaved_stages_speak_in_pairs_in_place_of_their_group() -> None:
    plan = replace(DENSE, vpp=2.0, schedule="interleaved-1f1b")
    groups = {group.name: group for group in process_groups(priced(plan, "llama3-8b"))}
    assert not groups["pp"].speaks
    assert [group.ranks for name, group in groups.items() if name.startswith("pair")] == [2, 2]


def test_other_runtimes_have_a_group_for_each_axis_and_one_accelerator_has_none() -> None:
    plan = Plan(dp=16.0, zero=3, zero_shards=16.0, num_microbatches=1.0)
    fsdp = process_groups(priced(plan, "llama3-8b", "fsdp"))
    assert [(group.name, group.ranks) for group in fsdp] == [("world", 16), ("dp-cp", 16)]
    alone = priced(Plan(num_microbatches=16.0), "llama3-8b", gpus=1)
    assert process_groups(alone) == ()
    assert communicators_line(alone) == "One accelerator: no communicators."
