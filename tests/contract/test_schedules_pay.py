"""What a schedule holds it also pays: every entry of the table, from its placement and its order alone."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, all_rules, estimate
from planner.cost.step.parts import PlanParts
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.simulate.plan import play_plan
from planner.techniques.schedules import SCHEDULES, Schedule
from tests.cases import every
from tests.unit.cost_jobs import DENSE, GQA, any_runtime, job, model, plan_of

RANKS, PASSES, LAYERS = 4, 16, 24
MODEL = model("even", {"a": {"mixer": GQA, "ffn": DENSE}}, f"{LAYERS} a")
RUNNER = any_runtime()
EACH = every("name", SCHEDULES)


def chunks_of(schedule: Schedule) -> int:
    """Return the fewest chunks that the schedule runs on each rank."""
    return next(vpp for vpp in (1, 2, 3) if not schedule.supports(RANKS, vpp, PASSES))


def setting(name: str, dp: int = 1, **fields: Any) -> tuple[Job, Plan]:
    """Return 24 equal layers on four ranks, 16 micro-batches."""
    seq_len = fields.pop("seq_len", 2048)
    work = job(MODEL, RANKS * dp, global_batch=PASSES * dp, seq_len=seq_len)
    chunks = chunks_of(SCHEDULES[name])
    plan = plan_of(work, **({"pp": RANKS, "vpp": chunks, "zero": 0, "schedule": name} | fields))
    return work, plan


def priced(name: str, dp: int = 1, **fields: Any) -> Estimate:
    work, plan = setting(name, dp, **fields)
    assert not violations(all_rules(plan, case_of(plan, work, RUNNER)))
    return estimate(plan, work, RUNNER)


def layer_elements(answer: Estimate) -> float:
    """Return the weights of one of the layers."""
    parts = PlanParts(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    return float(parts.costs["a", False].trained)


@EACH
def test_weights_are_held_as_often_as_chunks_are_placed(name: str) -> None:
    """Two bytes of each layer of each chunk on each version that is in flight; gradients and states once."""
    schedule, answer = SCHEDULES[name], priced(name)
    chunks = int(answer.plan.vpp)
    homes = schedule.chunk_ranks(RANKS, chunks)
    layers = LAYERS / (RANKS * chunks) * layer_elements(answer)
    for rank in range(1, RANKS - 1):
        held = homes.count(rank) * layers
        versions = schedule.weight_versions(RANKS, chunks, PASSES, rank)
        stage = answer.stages[rank]
        assert stage.weights == pytest.approx(2 * versions * held)
        assert (stage.gradients, stage.optimizer) == pytest.approx((4 * held, 12 * held))


@EACH
def test_ranks_that_hold_the_same_chunk_exchange_its_gradients(name: str) -> None:
    """An all-reduce among n holders sends 2 (n - 1) / n of a chunk's fp32 gradients from each."""
    schedule, answer = SCHEDULES[name], priced(name)
    chunks = int(answer.plan.vpp)
    homes = np.array(schedule.chunk_ranks(RANKS, chunks)).reshape(schedule.routes, -1)
    holders = [len(set(column)) for column in homes.T.tolist()]
    parts = PlanParts(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    held = float(np.sum(parts.passes.weights.trained))
    due = 2 * (max(holders) - 1) / max(holders) * 4 * schedule.weight_copies * held / RANKS
    assert answer.sent.dp == pytest.approx(due, rel=0.25), "the slowest rank also holds the ends"
    assert (answer.sent.dp > 0) == (answer.time.dp_comm > 0) == (schedule.weight_copies > 1)
    assert holders == [schedule.weight_copies] * len(holders)


@EACH
def test_no_rank_is_played_with_more_memory_than_is_estimated(name: str) -> None:
    work, plan = setting(name)
    played = play_plan(plan, work, RUNNER)
    for stage, known in zip(played.record.stages, played.estimate.stages, strict=True):
        assert (stage.peak_bytes or 0.0) <= known.total * 1.01, stage.stage


def runs(order: Any, kinds: tuple[str, ...], chunk: int) -> int:
    """Count the runs of passes of one kind in one chunk, whatever weight gradients stand between."""
    visits = [(item.kind in kinds, item.chunk) for item in order if item.kind != "W"]
    return sum(key == (True, chunk) for key, _ in groupby(visits))


@EACH
def test_a_chunk_is_gathered_as_often_as_its_passes_come_apart(name: str) -> None:
    """A schedule that claims fewer gathers than micro-batches runs each chunk's passes in so many runs.

    What travels then: 2 bytes gathered before either, and 4 reduced, over two ranks of a group.
    """
    schedule, answer = SCHEDULES[name], priced(name, dp=2, zero=3)
    chunks = int(answer.plan.vpp)
    rounds = float(schedule.rounds(RANKS, chunks, PASSES))
    assert 1 <= rounds <= PASSES
    if rounds < PASSES:
        for rank, order in enumerate(schedule.order(RANKS, chunks, PASSES)):
            for chunk in {item.chunk for item in order}:
                assert runs(order, ("F",), chunk) == rounds, (rank, chunk)
                assert runs(order, ("B", "BW"), chunk) == rounds, (rank, chunk)
    parts = PlanParts(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    held = parts.passes.weights.on(parts.slowest)
    exchanged = (schedule.weight_copies - 1) * 2 * 4 * held.trained / 2
    assert answer.sent.dp == pytest.approx(rounds * 1 / 2 * 8 * held.trained + exchanged)


@EACH
def test_what_stays_gathered_is_in_memory(name: str) -> None:
    """Sequences of 64 tokens: two layers gathered and one's gradient whole, or as many of whole chunks."""
    schedule = SCHEDULES[name]
    work = job(MODEL, 2 * RANKS, global_batch=2 * PASSES, seq_len=64)
    chunks = chunks_of(schedule)
    plan = plan_of(work, pp=RANKS, vpp=chunks, zero=3, schedule=name)
    answer = estimate(plan, work, RUNNER)
    kept = schedule.rounds(RANKS, chunks, PASSES) < PASSES
    layers = np.ceil(LAYERS / (RANKS * chunks)) if kept else 1
    whole = (2 * 2 + 4) * layers * layer_elements(answer)
    assert answer.stages[1].workspace >= whole
    assert answer.stages[1].workspace <= 2 * whole


@EACH
def test_activations_on_the_host_are_copied_and_missing_on_the_device(name: str) -> None:
    """Sequences so long that a chunk's passes outlast its copies, and chunks enough that some are away."""
    schedule, long = SCHEDULES[name], {"seq_len": 131072}
    answer = priced(name, **(long | {"vpp": 3} if schedule.hosts else long))
    parts = PlanParts(answer.plan, case_of(answer.plan, answer.job, answer.runtime))
    chunks = int(answer.plan.vpp)
    flying = float(schedule.in_flight_chunks(RANKS, chunks, PASSES, 1))
    whole = flying * LAYERS / (RANKS * chunks) * float(parts.costs["a", False].held)
    hosts = schedule.offloaded_chunks(chunks) > 0
    assert hosts == schedule.hosts == (parts.hosted is not None)
    if parts.hosted is None:
        assert answer.stages[1].activations == pytest.approx(whole)
        assert answer.time.offload == 0.0
        return
    assert answer.stages[1].activations < whole
    assert answer.stages[1].activations + parts.hosted.host[1] >= 0.99 * whole
    assert parts.hosted.seconds >= parts.hosted.alone


@EACH
def test_every_message_is_sent_by_some_rank(name: str) -> None:
    schedule = SCHEDULES[name]
    for pp, chunks in ((2, 1), (4, 2), (4, 3), (6, 2)):
        if schedule.supports(pp, chunks, 2 * pp):
            continue
        sends = schedule.rank_sends(pp, chunks)
        assert sum(sends) == pytest.approx(float(schedule.messages(pp, chunks, 2 * pp)))
