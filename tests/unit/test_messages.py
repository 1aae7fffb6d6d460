"""Messages between stages: each at the tier that it crosses, in the closed form as in a played step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import played_seconds
from planner.cost.traffic.messages import pipeline_messages
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.search.choices import choices_of
from planner.search.request import objective_column
from planner.search.scan import Scan
from planner.search.space import make_space
from planner.simulate.plan import play_plan
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.cli.command import planner
from tests.unit.cost_jobs import MODELS, any_runtime, is_legal, job, plan_of, runtime

SLOW = "a2-highgpu-8g"
"""Nodes of eight whose network is a hundred times slower than their links."""


def neighbours(schedule: str, pp: int, vpp: int) -> list[list[tuple[int, int]]]:
    """Ranks of the two ends of every message that a rank takes in, its own second."""
    home = [SCHEDULES[schedule].placement(chunk, pp, vpp) for chunk in range(pp * vpp)]
    found: list[list[tuple[int, int]]] = [[] for _ in range(pp)]
    for chunk, rank in enumerate(home):
        before = home[chunk - 1] if chunk else home[1]
        after = home[chunk + 1] if chunk + 1 < len(home) else home[-2]
        found[rank] += [(source, rank) for source in (before, after)]
    return found


@every(("gpus", "pp"), [(16, 8), (24, 4), (24, 8), (48, 6), (48, 16), (16, 2), (8, 4)])
@every(
    ("schedule", "vpp"),
    [("1f1b", 1), ("interleaved-1f1b", 3), ("zb-v", 2), ("dualpipe", 1), ("bitpipe", 2), ("dualpipe-v", 2)],
)
def test_messages_are_counted_rank_by_rank(schedule: str, vpp: int, gpus: int, pp: int) -> None:
    """Every rank of a stage sends to its like; the farthest pair decides; a turn is no message."""
    work = job(MODELS["dense"], gpus)
    case = case_of(Plan(schedule=schedule), work, runtime())
    size = gpus // pp
    for rank, counts in enumerate(pipeline_messages(case, pp, vpp)):
        wanted = Counter(
            int(any((one * size + k) // 8 != (other * size + k) // 8 for k in range(size)))
            for one, other in neighbours(schedule, pp, vpp)[rank]
            if one != other
        )
        assert counts == wanted


def test_the_last_stage_sends_a_later_chunk_back_over_the_whole_pipeline() -> None:
    case = case_of(Plan(schedule="interleaved-1f1b"), job(MODELS["dense"], 16), runtime())
    first, second, *_, last = pipeline_messages(case, 8, 2)
    assert first == {0: 3, 1: 1}, "its second chunk's input comes from the other node"
    assert last == {0: 3, 1: 1}
    assert second == {0: 4}


FAR = (
    ("1f1b", 1, {"pp": 4, "tp": 2}), ("1f1b", 1, {"pp": 8}), ("1f1b", 1, {"pp": 12, "tp": 2}),
    ("interleaved-1f1b", 2, {"pp": 4, "tp": 2}), ("interleaved-1f1b", 3, {"pp": 4}),
    ("breadth-first", 2, {"pp": 6}), ("zeropp", 2, {"pp": 6}), ("gpipe", 1, {"pp": 6}),
    ("zb-h1", 1, {"pp": 6}), ("dualpipe", 1, {"pp": 6}), ("bitpipe", 2, {"pp": 6}),
    ("dualpipe-v", 2, {"pp": 6}), ("zb-v", 2, {"pp": 6}),
)  # fmt: skip


@every("batch", [48, 96])
@every("hardware", ["dgx-a100-80gb", SLOW])
@every(("schedule", "vpp", "degrees"), FAR)
def test_a_pipeline_over_nodes_is_priced_as_it_is_played(
    schedule: str, vpp: int, degrees: dict[str, Any], hardware: str, batch: int
) -> None:
    work, runner = job(MODELS["dense"], 24, hardware=hardware, global_batch=batch), any_runtime()
    plan = plan_of(work, vpp=vpp, schedule=schedule, **degrees)
    assert is_legal(plan, work, runner)
    known = estimate(plan, work, runner)
    played = play_plan(plan, work, runner)
    assert known.step == pytest.approx(played.step, rel=0.02)
    assert known.floor <= played.step * (1 + 1e-12)


@every("vpp", [1, 2])
@every("hardware", ["dgx-h100", "dgx-a100-80gb"])
def test_the_closed_form_of_1f1b_over_nodes_is_near_a_played_step(hardware: str, vpp: int) -> None:
    """What columns are priced with, where one plan is played: more micro-batches than stages."""
    for pp in (6, 12) if vpp == 1 else (6,):
        work = job(MODELS["dense"], 24, hardware=hardware, global_batch=192)
        plan = plan_of(work, pp=pp, vpp=vpp, schedule="1f1b" if vpp == 1 else "interleaved-1f1b")
        case = case_of(plan, work, runtime())
        parts = PlanParts(plan, case)
        assert len(parts.stages.messages) == 2
        assert float(parts.passes.busy) == pytest.approx(played_seconds(case, plan, parts.costs), rel=0.02)


def test_far_messages_of_a_scan_are_those_of_the_plan() -> None:
    """The slowest stage of a batch is the slowest of all, though only deciding ranks are priced."""
    work, runner = job(MODELS["dense"], 24, hardware=SLOW, global_batch=24), runtime()
    fixed = {"cp": 1, "recompute": "none", "zero": 0, "offload": "none"}
    space = make_space(work, {"cp": 1})
    report = Scan(work, runner, space, choices_of(runner, fixed), 1e30, 1e30, keep=10_000).run(
        objective_column("time")
    )
    far = 0
    for candidate in report.best:
        parts = PlanParts(candidate.plan, case_of(candidate.plan, work, runner))
        assert candidate.value == pytest.approx(float(parts.step.step), rel=1e-12), candidate.plan
        far += bool(parts.passes.unlike)
    assert far > 20


def seconds(words: str, *more: str) -> float:
    document = planner(*words.split(), *more, "--format", "json").json
    return float(document["plans"][0]["step_time_s"])


def test_a_search_does_not_seek_messages_over_a_slow_network() -> None:
    words = f"search llama2-7b --hardware {SLOW} --gpus 24 --seq-len 4096 --global-batch 96 --cp 1"
    found = planner(*words.split(), "--format", "json").json["plans"][0]
    assert found["plan"]["pp"] == 3, "a stage for each node: the fewest messages between them"
    assert found["step_time_s"] == pytest.approx(seconds(words, "--pp", "3"))


def test_a_plan_of_many_chunks_says_what_its_simulation_says() -> None:
    """Stages of six ranks in nodes of eight: each message has some pair of ranks on two nodes."""
    work = job(MODELS["dense"], 24, hardware=SLOW, global_batch=96)
    plan = plan_of(work, pp=4, vpp=3, schedule="interleaved-1f1b")
    known, played = estimate(plan, work, runtime()), play_plan(plan, work, runtime())
    assert known.step == pytest.approx(played.step, rel=0.02)
    near = estimate(
        replace(plan, pp=1.0, vpp=1.0, dp=24.0, num_microbatches=4.0, schedule="1f1b"), work, runtime()
    )
    assert known.time.pp_comm > 5 * known.time.compute
    assert near.time.pp_comm == 0


def groups_of(gpus: int, axes: dict[str, int], axis: str) -> list[list[int]]:
    """Ranks of every group along an axis; the first axis counts fastest, and what is left comes last."""
    sizes = [*axes.values()]
    grid = np.arange(gpus).reshape(-1, *reversed(sizes))
    place = grid.ndim - 1 - [*axes].index(axis)
    return np.moveaxis(grid, place, -1).reshape(-1, axes[axis]).tolist()


LAYOUTS = (
    ({"tp": 3, "cp": 1, "dp": 4, "pp": 2}, {"etp": 1, "ep": 4}), ({"tp": 6, "cp": 1, "dp": 4, "pp": 1}, {}),
    ({"tp": 2, "cp": 3, "dp": 4, "pp": 1}, {}), ({"tp": 2, "cp": 1, "dp": 3, "pp": 4}, {"etp": 1, "ep": 6}),
    ({"tp": 1, "cp": 1, "dp": 6, "pp": 4}, {"etp": 1, "ep": 2}), ({"tp": 2, "cp": 2, "dp": 6, "pp": 1}, {}),
)  # fmt: skip


@every(("dense", "experts"), LAYOUTS)
@every("hardware", ["dgx-h100", "gb200-nvl72"])
def test_every_group_lies_where_its_ranks_are_counted(
    dense: dict[str, int], experts: dict[str, int], hardware: str
) -> None:
    """Megatron's order tp-cp-ep-dp-pp, which the meshes of the other runtimes have too."""
    gpus = 24
    work: Job = job(MODELS["dense"], gpus, hardware=hardware)
    tier = case_of(Plan(), work, runtime()).fast_tier
    for axes in (dense, experts):
        stride = 1
        for axis, size in axes.items():
            counts = [Counter(rank // tier.domain for rank in one) for one in groups_of(gpus, axes, axis)]
            found = tier.spread(float(stride), float(size))
            assert found.domains == max(map(len, counts))
            apart = [min(one.values()) for one in counts if len(one) > 1]
            assert found.fewest == min(apart, default=size)
            stride *= size
