"""Routed experts on tokens made narrow: FLOPs as Megatron-LM counts them, messages of their width."""

from __future__ import annotations

import pytest

from planner.cost.case import case_of
from planner.cost.flops import product_weights
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer
from planner.inputs.load import load_model
from planner.inputs.model import Experts, ModelSpec
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.megatron_lm.architecture import known_architecture
from tests.unit.cost_jobs import job, runtime

SUPER = load_model("nemotron-3-super-120b-a12b")


def with_latent(width: int) -> ModelSpec:
    """Nemotron 3 Super with experts of another width, none for the whole one."""
    block = SUPER.blocks["moe"]
    assert isinstance(block.ffn, Experts)
    ffn = block.ffn.model_copy(update={"latent": width})
    return SUPER.model_copy(update={"blocks": SUPER.blocks | {"moe": block.model_copy(update={"ffn": ffn})}})


def test_flops_are_those_that_megatron_counts() -> None:
    """``moe_layer_flops`` (Megatron-LM d98e8a64, megatron/training/training.py): 4 FLOPs for two products."""
    hidden, latent, inner, topk, shared = 4096, 1024, 2688, 22, 5376
    routed = 4 * latent * inner * topk + 4 * hidden * latent
    assert 2 * product_weights(SUPER.blocks["moe"], hidden) == routed + 4 * hidden * shared


def test_messages_are_of_the_latent_width_and_the_products_around_them_are_whole() -> None:
    plan = Plan(dp=64.0, ep=64.0)
    sent, names = {}, {}
    for width in (0, 1024):
        one = with_latent(width)
        pricer = Pricer(case_of(plan, job(one, gpus=64), runtime()), plan)
        layer = priced_layer(pricer, "moe")
        sent[width] = float(layer.exchanges.ep.forward_sent)
        names[width] = {operator.name: operator for operator in layer.operators}
    assert sent[1024] == sent[0] / 4
    into, out = (names[1024][f"experts_latent_{end}"] for end in ("in", "out"))
    assert float(into.params) == float(out.params) == 4096 * 1024
    assert float(names[0]["experts_in"].flops) == pytest.approx(4 * float(names[1024]["experts_in"].flops))


def test_a_latent_width_has_no_experts_that_compute_nothing() -> None:
    with pytest.raises(ValueError, match="no zero_experts and no shortcut"):
        Experts(experts=8, topk=2, inner=64, latent=16, zero_experts=4)


def test_the_core_builds_them_and_torchtitan_says_that_it_does_not() -> None:
    assert known_architecture(SUPER)[1] == ()
    plan, asked = Plan(), job(SUPER, gpus=1)
    said = " ".join(str(fault) for fault in violations(runtimes()["torchtitan"].rules(plan, asked)))
    assert "experts in a latent space" in said
