"""Layers that meet another's keys, keys that are values, and inputs of their own: counts, prices, rules."""

from __future__ import annotations

import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer
from planner.cost.legal import all_rules
from planner.inputs.layer_inputs import LayerInputs
from planner.inputs.model import Attention, Block, ModelSpec
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, job, runtime

BASE = Attention(heads=16, kv_heads=4, head_dim=128)


def model(**changes: object) -> ModelSpec:
    """The small dense model with other attention."""
    block = Block(mixer=BASE.model_copy(update=changes), ffn=MODELS["dense"].blocks["a"].ffn)
    return MODELS["dense"].model_copy(update={"blocks": {"a": block}})


def projection(one: ModelSpec) -> tuple[float, ...]:
    """FLOPs, parameters and bytes kept of the product before the core, and the core's seconds."""
    pricer = Pricer(case_of(Plan(), job(one, gpus=1), runtime()), Plan())
    there = {operator.name: operator for operator in priced_layer(pricer, "a").operators}
    made, core = there["qkv"], there["attention"]
    return float(made.flops), float(made.params), float(made.saved), float(core.forward)


def test_products_that_are_not_there_cost_nothing_and_the_core_is_the_same() -> None:
    whole, twice, other = (
        projection(model(projected=word)) for word in ("queries-keys-values", "queries-keys", "queries")
    )
    keys, queries = 4 * 128, 16 * 128
    for place in (0, 1):
        assert twice[place] / whole[place] == pytest.approx((queries + keys) / (queries + 2 * keys))
        assert other[place] / whole[place] == pytest.approx(queries / (queries + 2 * keys))
    assert whole[2] == twice[2]
    assert other[2] / whole[2] == pytest.approx(queries / (queries + 2 * keys))
    assert whole[3] == twice[3] == other[3]


def test_norms_of_keys_are_there_with_the_keys() -> None:
    own, other = (
        BASE.model_copy(update={"qk_norm": "head", "projected": word}) for word in ("queries-keys", "queries")
    )
    assert own.params(2048) - other.params(2048) == 2048 * 4 * 128 + 128


@every("name", sorted(runtimes()))
def test_no_runner_takes_them_without_saying_so(name: str) -> None:
    """By a rule, or where files are written: any model is priced whole on a rank by FSDP and DeepSpeed."""
    for one in (model(projected="queries"), model(projected="queries-keys")):
        case = case_of(Plan(), job(one, gpus=1), runtimes()[name])
        said = " ".join(str(fault) for fault in violations(all_rules(Plan(), case)))
        assert "keys" in said or runtimes()[name].unwritten(one), said


@every(
    "handed",
    [
        model(projected="queries"),
        model().model_copy(update={"layer_inputs": LayerInputs(width=64, vocab=100)}),
    ],
)
def test_what_is_handed_past_a_layer_stays_on_one_rank(handed: ModelSpec) -> None:
    for pp in (1, 2):
        plan = Plan(pp=float(pp), num_microbatches=4.0, schedule="1f1b")
        asked = job(handed, gpus=pp)
        found = {fault.rule for fault in violations(all_rules(plan, case_of(plan, asked, any_runtime())))}
        assert ("layers-hand-on" in found) == (pp == 2)


def test_inputs_of_layers_are_counted_with_the_embedding() -> None:
    inputs = LayerInputs(width=64, vocab=100)
    own = model().model_copy(update={"layer_inputs": inputs})
    assert own.params - model().params == (100 + 2048) * 12 * 64 + 64
    pricer = Pricer(case_of(Plan(), job(own, gpus=1), runtime()), Plan())
    there = {operator.name: operator for operator in priced_layer(pricer, "embedding").operators}
    assert float(there["layer_inputs"].flops) == 2 * float(pricer.tokens) * 2048 * 12 * 64


def test_a_gate_for_each_head_is_a_column_each_and_one_more_kernel() -> None:
    plain, gated = model(), model(head_gate=True)
    assert gated.params - plain.params == 12 * 2048 * 16
    pricer = Pricer(case_of(Plan(), job(gated, gpus=1), runtime()), Plan())
    there = {operator.name: operator for operator in priced_layer(pricer, "a").operators}
    assert float(there["output_gate"].forward) > 0
    said = " ".join(
        str(one) for one in violations(all_rules(Plan(), case_of(Plan(), job(gated, gpus=1), runtime())))
    )
    assert "a gate for each head of attention" in said
