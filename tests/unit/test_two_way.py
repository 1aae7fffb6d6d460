"""Schedules of two directions: what a rank holds twice, it reduces, steps and sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from planner.cost.case import Case, case_of
from planner.cost.estimate import Estimate, all_rules, estimate
from planner.cost.memory.weights import StageWeights
from planner.cost.step.parts import PlanParts
from planner.cost.traffic.data_parallel import data_parallel_seconds, data_parallel_sent, traffic_of
from planner.cost.traffic.shard_groups import groups
from planner.formulas.collectives import group_bandwidth
from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, cluster, job, plan_of
from tests.unit.test_memory_terms import EMBEDDING, LAYER, TOTAL

PARAMS = 1e9
HELD = StageWeights(2 * PARAMS, 0.0, PARAMS, 0.0)


def priced(schedule: str = "bitpipe", gpus: int = 4, **fields: Any) -> Estimate:
    work = job(gpus=gpus, global_batch=64)
    return estimate(_plan(work, schedule, **fields), work, any_runtime())


def _plan(work: Job, schedule: str, **fields: Any) -> Plan:
    chunks = {"vpp": 2 if schedule == "bitpipe" else 1}
    return plan_of(work, **({"pp": 4, "zero": 0, "schedule": schedule} | chunks | fields))


def setting(
    schedule: str = "bitpipe", gpus: int = 16, traits: dict[str, Any] | None = None, **fields: Any
) -> tuple[Case, Plan]:
    work = job(gpus=gpus, global_batch=64)
    plan = _plan(work, schedule, **fields)
    return case_of(plan, work, any_runtime(**(traits or {}))), plan


def sent(**fields: Any) -> float:
    return float(data_parallel_sent(*setting(**fields), HELD))


@every("schedule", ["bitpipe", "dualpipe"])
def test_a_rank_holds_its_stage_and_its_mirror_image_s(schedule: str) -> None:
    """Two runs of three layers each; the ends of the model stand on the first rank and on the last."""
    stages = priced(schedule).stages
    outer, inner = 2 * 3 * LAYER + 2 * EMBEDDING + 2048, 2 * 3 * LAYER
    assert [stage.weights for stage in stages] == [2 * outer, 2 * inner, 2 * inner, 2 * outer]
    assert [stage.gradients for stage in stages] == [4 * outer, 4 * inner, 4 * inner, 4 * outer]
    assert [stage.optimizer for stage in stages] == [12 * outer, 12 * inner, 12 * inner, 12 * outer]
    assert sum(stage.weights for stage in stages) == 2 * 2 * TOTAL


def test_the_second_copy_is_sharded_as_the_first() -> None:
    """Four data-parallel ranks: weights and gradients of both copies whole, a quarter of their states."""
    stage = priced("dualpipe", gpus=16, zero=1).stages[1]
    assert (stage.weights, stage.gradients) == (2 * 6 * LAYER, 4 * 6 * LAYER)
    assert stage.optimizer == 12 * 6 * LAYER / 4
    assert priced("dualpipe", gpus=16, zero=3).stages[1].weights == 2 * 6 * LAYER / 4


def test_both_ends_of_the_pipeline_have_the_loss() -> None:
    stages = priced("dualpipe").stages
    assert stages[0].workspace == stages[3].workspace > stages[1].workspace
    assert [stage.moment for stage in stages] == ["loss", "backward", "backward", "loss"]


@every("schedule", ["bitpipe", "dualpipe"])
def test_copies_reduce_their_gradients(schedule: str) -> None:
    """An all-reduce of both stages' fp32 gradients between two ranks sends each of its bytes once."""
    assert sent(schedule=schedule, gpus=4) == 2 * PARAMS * 4
    assert sent(schedule=schedule, gpus=4, traits={"reduce_dtype": "bf16"}) == 2 * PARAMS * 2


def test_copies_of_llama_2_7b_on_four_ranks() -> None:
    """6.74e9 weights, 32,000 x 4,096 of embedding and of head on the outer ranks."""
    work = Job(load_model("llama2-7b"), cluster("dgx-a100-80gb"), 4, Workload(seq_len=2048, global_batch=32))
    answer = estimate(_plan(work, "bitpipe"), work, any_runtime())
    body = 6738415616 - 2 * 32000 * 4096 - 4096
    assert answer.sent.dp == pytest.approx(8 * body / 4 + 4 * (2 * 32000 * 4096 + 4096))
    assert answer.sent.dp == pytest.approx(13.5e9, rel=0.05)
    assert answer.time.dp_comm > 0


@every("zero", [0, 1, 2, 3])
def test_no_schedule_of_one_copy_sends_more(zero: int) -> None:
    """DualPipeV folds both directions into one copy: nothing is exchanged."""
    assert sent(schedule="dualpipe-v", vpp=2, gpus=4, zero=zero) == 0


@every(("zero", "expected"), [
    # An all-reduce among the 2 x 4 ranks that hold a stage: 2 x 7/8 of 8 GB.
    (0, 2 * 7 / 8 * 8),
    # Both copies' gradients are scattered (3/4 of 8 GB) and weights gathered (3/4 of 4 GB), and the quarters
    # of gradients reduced between two ranks.
    (1, 3 / 4 * 8 + 3 / 4 * 4 + 8 / 4),
    # Each of 16 passes is through one of the copies.
    (2, 16 * 3 / 4 * 4 + 3 / 4 * 4 + 8 / 4),
    (3, 16 * 3 / 4 * (2 + 2 + 4) + 8 / 4),
])  # fmt: skip
def test_volume_under_data_parallelism(zero: int, expected: float) -> None:
    case, plan = setting(zero=zero)
    assert (plan.dp, plan.num_microbatches) == (4, 16)
    assert float(data_parallel_sent(case, plan, HELD)) == pytest.approx(expected * 1e9)


def test_a_pipeline_of_fsdp_stages_reduces_both_copies_once() -> None:
    """ZeRO-2: both gathered and reduced once in a step; ZeRO-3: one gathered in each of the 16 passes."""
    traits = {"engine": "fsdp1"}
    assert sent(zero=2, traits=traits) == pytest.approx((3 / 4 * (4 + 8) + 8 / 4) * 1e9)
    assert sent(zero=3, traits=traits) == pytest.approx((3 / 4 * (16 * 2 + 8) + 8 / 4) * 1e9)


def test_experts_are_exchanged_too() -> None:
    """Of 2e9 weights of experts on each rank, two copies; the eight of a layer are on two ranks."""
    work = job(MODELS["experts"], 8, global_batch=64)
    plan = _plan(work, "dualpipe", ep=2)
    held = StageWeights(2 * PARAMS, 4e9, PARAMS, 2e9)
    case = case_of(plan, work, any_runtime())
    dense = 2 * 1 / 2 * 8e9 + 8e9 / 2
    assert float(data_parallel_sent(case, plan, held)) == pytest.approx(dense + 16e9)


def exchange(gpus: int, **fields: Any) -> tuple[Case, float]:
    case, plan = setting("dualpipe", gpus, **fields)
    return case, float(traffic_of(case, groups(case, plan, HELD)).exchange)


def test_the_farthest_pair_decides_over_which_links() -> None:
    """Nodes of eight: ranks 0 and 6 of eight share one; of 12, ranks 2 and 11 do not, nor of 16 0 and 12."""
    for gpus, tp, tier in ((4, 1, 0), (8, 2, 0), (12, 3, 1), (16, 4, 1)):
        case, seconds = exchange(gpus, tp=tp)
        assert seconds == pytest.approx(8e9 / group_bandwidth(case.tiers[tier], 2.0), rel=0.01), (gpus, tp)


def test_the_exchange_hides_behind_the_last_backward_as_far_as_it_goes() -> None:
    case, plan = setting("dualpipe", 16, tp=4, traits={"dp_exposed": 0.0, "hidden_collective_traffic": 0.0})
    traffic = replace(traffic_of(case, groups(case, plan, HELD)), reduce=0.0, gather=0.0, exchange=1.0)
    # Two thirds of a micro-batch of 0.75 s are backward.
    assert float(data_parallel_seconds(case, plan, traffic, 0.75, 0.75)) == pytest.approx(0.5)
    assert float(data_parallel_seconds(case, plan, traffic, 3.0, 3.0)) == 0.0


def test_the_optimizer_steps_both_copies() -> None:
    one, two = (priced(name, vpp=vpp) for name, vpp in (("dualpipe-v", 2), ("bitpipe", 2)))
    assert two.time.optimizer == pytest.approx(2 * one.time.optimizer, rel=0.02)


@every("schedule", ["bitpipe", "dualpipe"])
@every("zero", [0, 1, 2, 3])
def test_the_played_step_pays_the_same(schedule: str, zero: int) -> None:
    """Even stages but for the ends: price and played step within 2%, the end of the step the same."""
    work = job(gpus=16, global_batch=64)
    plan = _plan(work, schedule, zero=zero)
    played = play_plan(plan, work, any_runtime())
    assert max(played.exchange) == pytest.approx(played.estimate.time.dp_comm)
    assert played.exchange[0] > 0
    assert played.estimate.step == pytest.approx(played.step, rel=0.02)


def test_a_step_of_unlike_stages_mixes_those_of_two_ranks() -> None:
    """Stages of 6, 2, 2, 2 layers: the outer ranks run four in the mean, and so does the played step."""
    work = job(gpus=4, global_batch=64)
    plan = replace(_plan(work, "dualpipe"), stage_layers=(6, 2, 2, 2))
    pieces = PlanParts(plan, case_of(plan, work, any_runtime())).ranks
    assert [rank["a", False] for rank in pieces] == [4, 2, 2, 4]
    assert [rank["head", False] for rank in pieces] == [0.5, 0, 0, 0.5]
    answer = estimate(plan, work, any_runtime())
    assert answer.step == pytest.approx(play_plan(plan, work, any_runtime()).step, rel=0.05)


def test_a_column_of_plans_has_the_bits_of_one() -> None:
    work, runner = job(gpus=16, global_batch=64), any_runtime()
    plans = [_plan(work, "bitpipe", zero=1, tp=tp) for tp in (1, 2, 4)]
    alone = []
    for plan in plans:
        parts = PlanParts(plan, case_of(plan, work, runner))
        alone.append(traffic_of(parts.case, groups(parts.case, plan, HELD)))
    table = {name: np.array([getattr(plan, name) for plan in plans]) for name in ("tp", "dp", "zero_shards")}
    columns = replace(plans[0], **table)  # type: ignore[arg-type]
    whole_case = case_of(columns, work, runner)
    whole = traffic_of(whole_case, groups(whole_case, columns, HELD))
    for field in ("reduce", "gather", "exchange", "exchanged"):
        column = np.broadcast_to(np.asarray(getattr(whole, field)), (3,))
        assert column.tolist() == [float(getattr(one, field)) for one in alone], field


def test_host_memory_must_hold_the_states_of_both_copies() -> None:
    """16 bytes for each of 0.87e9 weights are 13.9 GB; of 25 GB of a node 20 are for states."""
    pool = cluster("dgx-h100").pool
    assert pool.node.host_memory is not None
    memory = pool.node.host_memory.__class__(25e9, "25 GB", "", "datasheet")
    node = pool.node.model_copy(update={"host_memory": memory})
    hardware = cluster("dgx-h100").model_copy(update={"pools": (pool.model_copy(update={"node": node}),)})
    work = replace(job(gpus=8, global_batch=64), hardware=hardware)
    for schedule, vpp, held in (("dualpipe-v", 2, True), ("dualpipe", 1, False)):
        plan = _plan(work, schedule, vpp=vpp, zero=1, offload="optimizer")
        broken = violations(all_rules(plan, case_of(plan, work, any_runtime())))
        assert ("host-holds-states" not in {fault.rule for fault in broken}) == held, schedule
