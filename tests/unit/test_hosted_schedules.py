"""PipeOffload (arXiv:2503.01328) in plans: what its schedules send to the host is priced as it is played."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, all_rules, estimate
from planner.cost.step.layout import ranks_of
from planner.cost.step.parts import PlanParts
from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.beside_step import BesideStep
from planner.report.hosting import hosting_lines
from planner.report.waterfall import Anatomy
from planner.rules import violations
from planner.runtimes.family import Job
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, cluster, job, plan_of

FAST, SLOW = 40e9, 25e9
"""Links over which copies both ways take three quarters of a chunk's passes, and outlast them. [byte/s]"""


def work_of(seq_len: int = 8192, link: float | None = FAST) -> Job:
    """Return 32 sequences of Llama 2 13B on eight A100, with a host link of so many bytes a second."""
    hardware = cluster("dgx-a100-80gb")
    pool = hardware.pool
    known = pool.accelerator.host_link
    assert known is not None
    rate = None if link is None else known.__class__(link, f"{link:g} B/s", "", "datasheet")
    accelerator = pool.accelerator.model_copy(update={"host_link": rate})
    pool = pool.model_copy(update={"accelerator": accelerator})
    hardware = hardware.model_copy(update={"pools": (pool,)})
    return Job(load_model("llama2-13b"), hardware, 8, Workload(seq_len=seq_len, global_batch=32))


def plan_for(work: Job, schedule: str, **fields: Any) -> Plan:
    return plan_of(work, **({"pp": 8, "vpp": 5, "zero": 1, "schedule": schedule} | fields))


def priced(schedule: str, **fields: Any) -> Estimate:
    work = work_of(**fields)
    return estimate(plan_for(work, schedule), work, any_runtime())


def chunk_bytes(answer: Estimate) -> float:
    """Return what a layer, the one of each chunk, saves for backward."""
    parts = PlanParts(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    (name,) = parts.case.model.blocks
    return float(parts.costs[name, False].held)


def test_full_offload_keeps_about_four_chunks_and_half_its_share() -> None:
    """On the second rank, of one layer a chunk: GIS-H 4 x 4 + 7; PO-F three to five; PO-H see below.

    With four beats to the next chunk, a kept chunk n of five lives 8 (4 - n) + 6 beats, five of which a
    micro-batch takes to enter: (14 + 6) / 5 for the two that stay, at most one more each, and up to five
    that are on their way.
    """
    half, some, none = (priced(name) for name in ("gis-h", "po-h", "po-f"))
    chunk = chunk_bytes(half)
    assert half.stages[1].activations == pytest.approx(23 * chunk)
    assert 3 <= none.stages[1].activations / chunk <= 5
    assert (14 + 6) / 5 - 1 <= some.stages[1].activations / chunk <= (14 + 6) / 5 + 2 + 5
    assert none.peak < some.peak < half.peak


@every(("seq_len", "printed"), [(4096, 3 / 8), (8192, 6 / 16), (16384, 12 / 32)])
def test_half_offload_against_the_paper_s_figure(seq_len: int, printed: float) -> None:
    """Figure 15, d = 8 and v = 5: gigabytes of PO-H over those of GIS-H, on the peak stage."""
    half, some = (
        max(stage.activations for stage in priced(name, seq_len=seq_len).stages[:7])
        for name in ("gis-h", "po-h")
    )
    assert some / half == pytest.approx(printed, rel=0.25)


def test_copies_that_hide_cost_nothing() -> None:
    """The paper: free for k <= 1."""
    plain, copied = priced("po-f", link=1e15), priced("po-f")
    assert copied.step == pytest.approx(plain.step, rel=0.001)
    assert copied.time.offload == pytest.approx(0.0, abs=0.001 * plain.step)


def test_slow_copies_are_paid() -> None:
    """A rank copies five chunks of 32 micro-batches both ways: the link alone outlasts the passes."""
    fast, slow = priced("po-f"), priced("po-f", link=SLOW)
    link = 2 * 5 * 32 * chunk_bytes(slow) / SLOW
    assert fast.step < link < slow.step
    assert slow.time.offload == pytest.approx(slow.step - fast.step)
    assert sum(vars(slow.time).values()) == pytest.approx(slow.step)
    some = priced("po-h", link=SLOW)
    assert some.time.offload == pytest.approx(0.0, abs=0.01 * some.step), "half of them hide"


@pytest.mark.parametrize("schedule", ["po-h", "po-f"])
@pytest.mark.parametrize("link", [FAST, SLOW, 6e9])
def test_price_and_played_step_agree(schedule: str, link: float) -> None:
    work = work_of(link=link)
    played = play_plan(plan_for(work, schedule), work, any_runtime())
    assert played.step == pytest.approx(played.estimate.step, rel=1e-9)
    for stage, known in zip(played.record.stages, played.estimate.stages, strict=True):
        assert stage.peak_bytes == pytest.approx(known.total, rel=0.02)


def test_unlike_chunks_hold_their_own_bytes() -> None:
    """Twelve layers over three ranks of two chunks, first of three layers and then of one."""
    work = job(MODELS["dense"], 3, global_batch=12)
    plan = plan_of(work, pp=3, vpp=2, zero=1, schedule="po-f", stage_layers=(3, 3, 3, 1, 1, 1))
    answer = estimate(plan, work, any_runtime())
    parts = PlanParts(answer.plan, case_of(plan, work, any_runtime()))
    assert parts.hosted is not None
    layer = float(parts.costs["a", False].held)
    assert all(held / layer == pytest.approx(round(held / layer)) for held in parts.hosted.device)
    assert all(held >= 3 * layer * (1 - 1e-9) for held in parts.hosted.device)
    assert sum(rank["a", False] for rank in ranks_of(plan, parts.case)) == 12


def test_the_host_s_share_is_told() -> None:
    """A node's eight ranks, each with up to as many chunks on the host as GIS-H has in flight."""
    answer = priced("po-f")
    told = BesideStep(Anatomy(answer))
    chunk = chunk_bytes(answer)
    assert 8 * 10 * chunk < told.activations < 8 * 24 * chunk


def broken(work: Job, **fields: Any) -> set[str]:
    plan = plan_for(work, "po-f", **fields)
    return {fault.rule for fault in violations(all_rules(plan, case_of(plan, work, any_runtime())))}


def test_what_cannot_be_copied_is_refused() -> None:
    assert broken(work_of()) == set()
    assert broken(work_of(link=None)) == {"offload-has-link"}
    assert broken(work_of(), offload="activations:1") == {"one-way-to-host"}
    long = replace(work_of(), workload=Workload(seq_len=512, global_batch=8192))
    assert broken(long) == {"copies-can-be-played"}


def test_the_page_says_what_waits_on_the_host_and_what_cannot() -> None:
    """Copies of five layers of 1.35 GB at 40 GB/s take 0.83 of their passes, 0.41 s; at 25 GB/s 1.33."""
    kept, late, none = (
        hosting_lines(one) for one in (priced("po-f"), priced("po-f", link=SLOW), priced("gis"))
    )
    assert re.fullmatch(
        r"Up to \d+\.\d GiB of each rank's activations wait .* 0\.83 of the passes .*", kept[0]
    )
    assert "take 1.33 times the passes" in late[0]
    assert none == []
    assert priced("po-f", link=SLOW).peak == pytest.approx(priced("gis-h").peak, rel=0.01)


def test_what_a_schedule_sends_to_the_host_must_fit_it() -> None:
    """A node holds what its eight ranks send at their peaks, or the plan is none."""
    work = work_of()
    plan = plan_for(work, "po-f")
    answer = estimate(plan, work, any_runtime())
    parts = PlanParts(answer.plan, case_of(answer.plan, work, answer.runtime))
    assert parts.hosted is not None
    needed = 8 * max(parts.hosted.host)

    def faults(memory: float) -> set[str]:
        pool = work.hardware.pool
        known = pool.node.host_memory
        assert known is not None
        size = known.__class__(memory, f"{memory:g} B", "", "datasheet")
        node = pool.node.model_copy(update={"host_memory": size})
        small = work.hardware.model_copy(update={"pools": (pool.model_copy(update={"node": node}),)})
        return {one.rule for one in estimate(plan, replace(work, hardware=small), any_runtime()).violations}

    assert "host-holds-schedule" not in faults(1.3 * needed)
    assert "host-holds-schedule" in faults(1.2 * needed)
