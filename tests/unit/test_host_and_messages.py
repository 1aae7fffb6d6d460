"""Host time under blocking launches, and messages that are scattered: seconds and bytes by hand."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.case import Case, case_of
from planner.cost.estimate import estimate
from planner.cost.layer.attention_core import split_softmax
from planner.cost.layer.block_cost import layer_cost, priced_layer
from planner.cost.layer.communication import message_bytes
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.layer.operators import Pricer
from planner.cost.traffic.messages import hop_seconds, pipeline_messages
from planner.formulas.collectives import ring_seconds
from planner.formulas.messages import point_to_point_seconds, tier_seconds
from planner.plan import Plan
from planner.simulate.plan import play_plan
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

FORWARD, BACKWARD = 0.25, 0.5


def layer(recompute: str, **traits: Any) -> LayerCost:
    work = job(MODELS["dense"], 8)
    plan = plan_of(work, tp=2, recompute=recompute)
    pricer = Pricer(case_of(plan, work, runtime(**traits)), plan)
    return layer_cost(priced_layer(pricer, "a"), pricer.case.recompute, pricer)


@every(("recompute", "host"), [("none", FORWARD + BACKWARD), ("full", 2 * FORWARD + BACKWARD)])
def test_host_time_comes_on_top_where_launches_block(recompute: str, host: float) -> None:
    """``CUDA_LAUNCH_BLOCKING=1``: nothing is launched ahead, in any pass, that which runs again included."""
    times = {"host_seconds_forward": FORWARD, "host_seconds_backward": BACKWARD}
    blocking = layer(recompute, launch_blocking=True, **times)
    free = layer(recompute)
    assert blocking.seconds == pytest.approx(free.seconds + host)
    assert blocking.forward == pytest.approx(free.forward + FORWARD)
    assert blocking.weight_gradient == free.weight_gradient


def test_host_time_is_a_floor_where_launches_run_ahead() -> None:
    ahead = layer("none", host_seconds_forward=FORWARD, host_seconds_backward=BACKWARD)
    blocking = layer(
        "none", launch_blocking=True, host_seconds_forward=FORWARD, host_seconds_backward=BACKWARD
    )
    assert FORWARD + BACKWARD < ahead.seconds < blocking.seconds


@every(("tp", "shown"), [(1, 0.0), (2, 0.25)])
def test_where_tensor_parallel_ranks_meet_a_share_of_the_shorter_is_not_hidden(tp: int, shown: float) -> None:
    """A device of a thousandth of a second under a host of 0.25 s and 0.5 s, and the other way round."""
    work = job(MODELS["dense"], 8)
    plan = plan_of(work, tp=tp)

    def seconds(**traits: Any) -> float:
        pricer = Pricer(case_of(plan, work, runtime(**traits)), plan)
        return float(layer_cost(priced_layer(pricer, "a"), pricer.case.recompute, pricer).seconds)

    alone = seconds()
    for host in (FORWARD, 1e-6):
        times = {"host_seconds_forward": host, "host_seconds_backward": 2 * host}
        more = seconds(**times, host_exposed=0.25) - seconds(**times)
        shorter = min(3 * host, alone)
        assert more == pytest.approx(shown * shorter, rel=0.2)


def test_a_host_launches_again_what_is_recomputed() -> None:
    times = {"host_seconds_forward": FORWARD, "host_seconds_backward": BACKWARD}
    twice = layer("full", **times).seconds - layer("none", **times).seconds
    more = layer("full").seconds - layer("none").seconds
    assert twice == pytest.approx(FORWARD + more, rel=0.05)


@every(("heads", "split"), [(4.0, 0.0), (2.0, 1.0), (14.0, 1.0), (16.0, 0.0), (1.0, 1.0)])
def test_megatron_s_fused_softmax_takes_heads_by_fours(heads: float, split: float) -> None:
    assert float(split_softmax(heads)) == split


def test_a_split_softmax_launches_four_kernels_more_and_moves_the_bytes_of_the_unfused_one() -> None:
    work = job(MODELS["dense"], 8, seq_len=1024)
    found = {}
    for tp in (4, 8):
        plan = plan_of(work, tp=tp)
        for kind in ("fused-softmax", "unfused"):
            pricer = Pricer(case_of(plan, work, runtime(attention=kind)), plan)
            found[tp, kind] = next(
                op for op in priced_layer(pricer, "a").operators if op.module == "core_attn"
            )
    heads = MODELS["dense"].blocks["a"].mixer.heads
    tp, other = (8, 4) if heads / 8 % 4 else (4, 8)
    assert (heads / tp) % 4
    assert (heads / other) % 4 == 0
    assert float(found[tp, "fused-softmax"].launches) == 4.0
    assert found[tp, "fused-softmax"].forward == found[tp, "unfused"].forward
    assert float(found[other, "fused-softmax"].launches) == 0.0
    assert found[other, "fused-softmax"].forward < found[other, "unfused"].forward


def test_an_odd_vocabulary_is_slow_where_nobody_pads_it() -> None:
    work = job(MODELS["dense"].model_copy(update={"vocab": 50257}), 8)
    found = {}
    for tp in (1, 2):
        plan = plan_of(work, tp=tp)
        for padded in (True, False):
            pricer = Pricer(case_of(plan, work, runtime(padded_vocabulary=padded)), plan)
            found[tp, padded] = next(op for op in priced_layer(pricer, "head").operators if op.name == "head")
    assert found[1, False].forward == pytest.approx(2.8 * found[1, True].forward)
    assert found[1, False].weight_gradient == pytest.approx(2.8 * found[1, True].weight_gradient)
    assert found[2, False].forward == found[2, True].forward


def pipelined(sequence_parallel: bool = False, **traits: Any) -> tuple[Case, Plan]:
    work = job(MODELS["dense"], 8, global_batch=4)
    plan = plan_of(work, tp=4, pp=2, sequence_parallel=sequence_parallel)
    return case_of(plan, work, runtime(**traits)), plan


def hop_of(case: Case, plan: Plan) -> float:
    """Seconds of messages on the first rank of a pipeline."""
    return float(hop_seconds(case, plan, pipeline_messages(case, int(plan.pp), int(plan.vpp))[0]))


def test_a_scattered_message_is_a_part_and_a_gather() -> None:
    """Narayanan et al. 2021, sec. 4.1: each of tp ranks sends 1/tp, the receivers gather it over NVLink."""
    whole = 2.0 * 2048 * 2048
    case, plan = pipelined(pipeline_code="scattered")
    assert message_bytes(case, plan, 2048.0) == whole / 4
    way = point_to_point_seconds(whole / 4, 4, case.tiers)
    gather = ring_seconds(whole, 4, 1.0, case.tensor_tiers)
    assert hop_of(case, plan) == pytest.approx(2 * (way + gather))
    plain, plan = pipelined()
    assert message_bytes(plain, plan, 2048.0) == whole


def test_sharded_activations_are_not_gathered_after_a_message() -> None:
    scattered, plan = pipelined(sequence_parallel=True, pipeline_code="scattered")
    plain, _ = pipelined(sequence_parallel=True)
    assert hop_of(scattered, plan) == hop_of(plain, plan)


def test_scattered_messages_are_counted_as_they_are_sent() -> None:
    work = job(MODELS["dense"], 8, global_batch=4)
    plan = plan_of(work, tp=4, pp=2)
    codes = (runtime(pipeline_code=name) for name in ("megatron", "scattered"))
    whole, parts = (estimate(plan, work, code).sent.pp for code in codes)
    assert parts == whole / 4


def test_the_played_step_has_the_same_messages() -> None:
    work = job(MODELS["dense"], 8, global_batch=16)
    plan = plan_of(work, tp=4, pp=2)
    played = play_plan(plan, work, runtime(pipeline_code="scattered", message_host_seconds=1e-3))
    assert played.step == pytest.approx(float(played.estimate.step), rel=2e-3)
    bare = play_plan(plan, work, runtime(pipeline_code="scattered"))
    assert played.step > bare.step + 16 * 2e-3


def test_messages_of_a_single_chunk_are_waited_for_where_only_several_chunks_hide_them() -> None:
    """Megatron-Bridge, training/comm_overlap.py: ``overlap_p2p_comm`` needs virtual stages."""
    work = job(MODELS["dense"])
    traits = {"pp_exposed": 0.5, "plain_pp_exposed": 1.0}
    hops = {}
    for chunks in (1, 2):
        plan = plan_of(work, pp=2, vpp=chunks, schedule="1f1b" if chunks == 1 else "interleaved-1f1b")
        case = case_of(plan, work, runtime(**traits))
        way = float(tier_seconds(message_bytes(case, plan, 2048.0), case.tiers[1]))
        hops[chunks] = hop_of(case, plan) / way
    assert hops == {1: 2 * 1.0, 2: 2 * 2 * 0.5}
