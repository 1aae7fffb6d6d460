"""Host time of latent attention, shared experts and parts that run again: by hand, and against runs."""

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.host_parts import (
    LATENT_OPERATIONS,
    REGION_OPERATIONS,
    ROTATED,
    beside_seconds,
    region_seconds,
)
from planner.cost.layer.operators import Pricer
from planner.cost.step.host_time import host_layer_seconds
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.runtimes import runtimes
from planner.runtimes.eager import LAUNCH_SECONDS
from planner.runtimes.family import Job
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime

LAYER = 4e-3


def pricer(model: str, recompute: str = "none", **traits: object) -> Pricer:
    work = job(MODELS[model], 4, global_batch=8)
    plan = plan_of(work, dp=4, recompute=recompute)
    return Pricer(case_of(plan, work, runtime(host_layer_seconds=LAYER, **traits)), plan)


def test_a_plain_layer_has_nothing_beside() -> None:
    assert beside_seconds(pricer("dense"), MODELS["dense"].blocks["a"]) == 0.0


def test_latent_attention_and_shared_experts_launch_modules_more() -> None:
    """Each is a fifth of a plain layer; latent queries of their own stream are the fourth."""
    latent, sparse = (MODELS["latent"].blocks[name] for name in "ab")
    rotated = LATENT_OPERATIONS * LAUNCH_SECONDS
    assert beside_seconds(pricer("latent"), latent) == pytest.approx(4 * LAYER / 5 + rotated)
    assert beside_seconds(pricer("latent"), sparse) == pytest.approx(6 * LAYER / 5 + rotated)
    assert beside_seconds(pricer("experts"), MODELS["experts"].blocks["a"]) == pytest.approx(2 * LAYER / 5)


def test_a_router_that_is_not_fused_launches_its_chain() -> None:
    block, dense = MODELS["experts"].blocks["a"], MODELS["dense"].blocks["a"]
    fused, eager = (pricer("experts", router=code) for code in ("fused", "eager"))
    assert beside_seconds(eager, block) - beside_seconds(fused, block) == pytest.approx(44 * LAUNCH_SECONDS)
    assert beside_seconds(pricer("dense", router="eager"), dense) == 0.0


@every(
    ("recompute", "modules", "operations", "regions"),
    [
        ("none", 0.0, 0.0, 0),
        ("selective:core_attn", 1.0, 0.0, 1),
        ("selective:mla_up_proj", 1.0, ROTATED, 1),
        ("selective:norm+moe_act", 2.0, 0.0, 3),
        ("selective:shared_experts", 2.0, 0.0, 1),
        ("selective:mlp", 0.0, 0.0, 0),
        ("full", 0.0, 0.0, 0),
    ],
)
def test_parts_that_run_again_are_launched_again(
    recompute: str, modules: float, operations: float, regions: int
) -> None:
    """Forward is a third of a module; whole layers that run again are counted with the layer."""
    told = region_seconds(pricer("latent", recompute), MODELS["latent"].blocks["b"])
    counted = (operations + regions * REGION_OPERATIONS) * LAUNCH_SECONDS
    assert told == pytest.approx(modules * LAYER / 5 / 3 + counted)


def test_a_host_of_many_experts_does_the_rest_meanwhile() -> None:
    """What is beside adds to the least time of a layer with few experts, not to the launches of many."""
    block = MODELS["latent"].blocks["b"]
    least = {"expert_layer_host_seconds": 9e-3}
    few = pricer("latent", **least, expert_host_seconds=1e-4)
    many = pricer("latent", **least, expert_host_seconds=0.1)
    assert float(host_layer_seconds(few, block)) == pytest.approx(9e-3 + beside_seconds(few, block))
    assert float(host_layer_seconds(many, block)) == pytest.approx(0.1 * block.ffn.experts)


MOONLIGHT = {
    "none": 0.4572,
    "selective:core_attn": 0.4748,
    "selective:mla_up_proj": 0.4808,
    "selective:moe_act": 0.4662,
    "selective:norm+moe_act": 0.5065,
}
"""Seconds of a step of Moonlight on 8 H100, tp 2, ep 8, one micro-batch (Megatron-Bridge,
skills/nemo-mbridge-perf-activation-recompute/card.yaml, whose `layernorm` are norms)."""


def test_moonlight_s_steps_are_their_host_and_no_constant_was_fitted_to_them() -> None:
    work = Job(
        model=load_model("moonlight-16b-a3b"),
        hardware=load_hardware("dgx-h100"),
        gpus=8,
        workload=Workload(seq_len=4096, global_batch=4, precision="bf16", state_dtype="bf16"),
    )
    bridge = runtimes()["megatron-bridge"].with_traits(dispatcher="all-to-all", router="eager")
    found = {}
    for recompute, measured in MOONLIGHT.items():
        plan = plan_of(work, tp=2, ep=8, dp=4, zero=1, sequence_parallel=True, recompute=recompute)
        found[recompute] = estimate(plan, work, bridge).step
        assert found[recompute] == pytest.approx(measured, rel=0.17)
    assert sorted(found, key=found.__getitem__)[:2] == sorted(MOONLIGHT, key=MOONLIGHT.__getitem__)[:2]
    assert max(found, key=found.__getitem__) == "selective:norm+moe_act"
