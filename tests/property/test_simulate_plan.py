"""A played plan: its chunks are the ranks, its time and memory the closed form's, and the bound holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.stages import Piece
from planner.cost.step.layout import ranks_of
from planner.cost.step.played import chunk_pieces, message_seconds
from planner.errors import UnsupportedPlan
from planner.inputs.load import load_model
from planner.simulate.plan import play_plan
from planner.simulate.plan_trace import plan_trace
from planner.units import GIB
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, faster, job, plan_of, random_plans, runtime

ROUNDING = 1 + 1e-12

FORMS_THAT_HOLD = ("1f1b", "gpipe", "interleaved-1f1b", "zb-h1", "zb-h2", "zb-1p", "breadth-first")
"""Schedules whose closed form was equal to the played step wherever it claims to hold."""


@pytest.mark.parametrize("name", MODELS)
def test_chunks_add_up_to_ranks(name: str) -> None:
    work, runner = job(MODELS[name], 8, global_batch=32), any_runtime()
    for plan in random_plans(work, runner, 40, seed=9):
        case = case_of(plan, work, runner)
        ranks: list[Counter[Piece]] = [Counter() for _ in range(int(plan.pp))]
        for chunk, pieces in enumerate(chunk_pieces(plan, case)):
            ranks[case.schedule.placement(chunk, int(plan.pp), int(plan.vpp))].update(pieces)
        assert ranks == ranks_of(plan, case)


LARGE: list[dict[str, Any]] = [
    {"pp": 2},
    {"pp": 8},
    {"pp": 8, "recompute": "full:4"},
    {"pp": 4, "vpp": 4, "schedule": "interleaved-1f1b"},
    {"pp": 8, "vpp": 5, "schedule": "interleaved-1f1b", "recompute": "selective"},
    {"pp": 16, "vpp": 5, "schedule": "interleaved-1f1b"},
]
"""Layouts of 80 equal layers, tp 4."""


@every("global_batch", [64, 512])
@every("axes", LARGE, ids=lambda axes: f"pp{axes['pp']}-vpp{axes.get('vpp', 1)}")
def test_the_closed_form_is_the_played_step(axes: dict[str, Any], global_batch: int) -> None:
    work = job(load_model("llama3-70b"), 128, seq_len=4096, global_batch=global_batch)
    plan = plan_of(work, tp=4, zero=1, sequence_parallel=True, **axes)
    played = play_plan(plan, work, runtime())
    known, step = played.estimate, played.record
    assert step.makespan == pytest.approx(known.step, rel=0.01)
    assert known.bound <= step.makespan * ROUNDING
    peaks = [stage.peak_bytes for stage in step.stages]
    assert peaks == pytest.approx([stage.total for stage in known.stages], rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_the_bound_is_never_above_the_played_step(name: str) -> None:
    work = job(MODELS[name], 16, global_batch=64)
    runner = replace(any_runtime(), schedules=FORMS_THAT_HOLD)
    for plan in random_plans(work, runner, 50, seed=12):
        played = play_plan(plan, work, runner)
        assert played.estimate.bound <= played.record.makespan * ROUNDING, plan


@pytest.mark.parametrize("name", ["dense", "sliding"])
@pytest.mark.parametrize("pp", [2, 3])
def test_no_split_is_played_faster_than_the_bound(name: str, pp: int) -> None:
    """Every split of 1F1B, with more micro-batches than ranks; with fewer, the closed form may be slower."""
    for passes in (pp + 1, 3 * pp):
        work = job(MODELS[name], pp, global_batch=passes)
        for cut in combinations(range(1, work.model.num_layers), pp - 1):
            split = tuple(int(size) for size in np.diff((0, *cut, work.model.num_layers)))
            played = play_plan(plan_of(work, pp=pp, stage_layers=split), work, runtime())
            assert played.estimate.bound <= played.step * ROUNDING, split


def test_messages_that_occupy_nobody_are_latencies() -> None:
    work = job(MODELS["dense"], 4, global_batch=4)
    played = play_plan(plan_of(work, pp=4), work, runtime(pipeline_code="beside-passes"))
    occupied = play_plan(plan_of(work, pp=4), work, runtime())
    assert played.pipeline.hops == played.wires
    assert sum(occupied.pipeline.hops) == 0
    assert played.pipeline.forward[1] + played.wires[0] == pytest.approx(occupied.pipeline.forward[1])


def test_stages_that_end_apart_wait_for_nobody() -> None:
    work = job(MODELS["dense"], 4, global_batch=8)
    plan = plan_of(work, pp=4, schedule="zb-h2")
    apart = play_plan(plan, work, runtime(pipeline_code="ends-apart"))
    assert apart.step == apart.record.longest_span < apart.record.makespan
    together = play_plan(plan, work, runtime())
    assert together.step == together.record.makespan


def test_stages_of_one_split_by_hand() -> None:
    """Two stages, two micro-batches: F0 F1 then B0 B1 on the last, as 1F1B has it."""
    work = job(MODELS["dense"], 2, global_batch=2)
    played = play_plan(plan_of(work, pp=2, stage_layers=(3, 9)), work, runtime())
    f0, f1 = played.pipeline.forward
    b0, b1 = (
        b + w for b, w in zip(played.pipeline.input_gradient, played.pipeline.weight_gradient, strict=True)
    )
    assert f0 < f1
    first = f0 + 2 * (f1 + b1) + b0
    assert played.timeline.makespan == pytest.approx(first, rel=1e-12)
    step = played.record
    assert step.makespan == pytest.approx(first + max(played.tails), rel=1e-12)
    assert step.stages[1].busy == pytest.approx(2 * (f1 + b1) + played.tails[1], rel=1e-12)
    assert step.bubble == pytest.approx(step.makespan - step.stages[1].busy, rel=1e-12)
    assert [stage.peak_in_flight for stage in step.stages] == [2, 1]


def test_one_rank_is_all_work() -> None:
    work = job(MODELS["dense"], 8)
    played = play_plan(plan_of(work, zero=1), work, runtime())
    assert played.record.makespan == pytest.approx(played.estimate.step, rel=1e-12)
    assert played.record.bubble == pytest.approx(0.0, abs=1e-12)
    assert played.wires == (0.0,)


def test_messages_take_the_tier_that_they_cross() -> None:
    """Stages of two accelerators in nodes of eight: every fourth message leaves the node."""
    work = job(MODELS["dense"], 16)
    plan = plan_of(work, tp=2, pp=8)
    case = case_of(plan, work, runtime())
    wires = message_seconds(plan, case)
    assert wires[0] == wires[1] == wires[2] == wires[4] < wires[3]
    wide = plan_of(work, tp=8, pp=2)
    nbytes = 2.0 * 2048 * work.model.hidden
    outer = work.hardware.pool.tiers[-1]
    assert message_seconds(wide, case)[0] == pytest.approx(
        outer.latency + nbytes / min(outer.bandwidth, outer.pair_bandwidth)
    )


def test_faster_links_are_never_slower() -> None:
    work = job(MODELS["dense"], 16)
    plan = plan_of(work, tp=2, pp=4, zero=1)
    plain, quick = (play_plan(plan, one, runtime()).record.makespan for one in (work, faster(work, links=2)))
    assert quick < plain


def test_jitter_is_seeded() -> None:
    work = job(MODELS["dense"], 8)
    plan = plan_of(work, pp=4)
    once, again, other = (
        play_plan(plan, work, runtime(), jitter=0.1, seed=seed).record.makespan for seed in (1, 1, 2)
    )
    assert once == again != other


def test_a_plan_that_the_schedule_cannot_run_is_refused() -> None:
    work = job(MODELS["dense"], 8)
    with pytest.raises(UnsupportedPlan, match="one chunk per rank"):
        play_plan(plan_of(work, pp=4, vpp=2), work, runtime())


def test_memory_in_the_trace_is_what_the_device_reports() -> None:
    work = job(MODELS["dense"], 8)
    played = play_plan(plan_of(work, pp=4, zero=1), work, runtime())
    events = plan_trace(played)["traceEvents"]
    for stage in played.estimate.stages:
        held = [
            event["args"]["GiB"]
            for event in events
            if event["name"] == "memory" and event["pid"] == stage.stage
        ]
        assert max(held) == pytest.approx(stage.total / GIB, rel=1e-9)
    ends = {event["name"]: event for event in events if event["ph"] == "X" and event["pid"] == 0}
    last = ends["optimizer"]
    assert last["ts"] + last["dur"] == pytest.approx(1e6 * (played.timeline.makespan + played.tails[0]))
    assert "data parallel" in ends
    sent = [event for event in events if event.get("cat") == "message"]
    assert len(sent) == 2 * 3 * int(played.estimate.plan.num_microbatches)
