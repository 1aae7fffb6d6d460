"""From a plan to its ranks: weights add up to the model, whatever the layout."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.attention_core import mean_keys
from planner.cost.step.layout import (
    layer_weights,
    piece_costs,
    piece_details,
    priced_layers,
    ranks_of,
    split_of,
    with_split,
)
from planner.cost.step.step import piece_totals, total_table
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from tests.cases import every
from tests.unit.cost_jobs import MODELS, job, plan_of, runtime


def params_held(model: ModelSpec, **degrees: Any) -> float:
    """Weights of all ranks of one replica, what every rank copies counted once."""
    work = job(model, 8)
    plan = plan_of(work, **degrees)
    case = case_of(plan, work, runtime())
    totals = piece_totals(ranks_of(plan, case))
    details = piece_details(case, plan, priced_layers(case, plan, totals), totals)
    dense = sum(count * float(details[piece].params) for piece, count in totals.items())
    experts = sum(count * float(details[piece].expert_params) for piece, count in totals.items())
    return dense * float(plan.tp) + experts * float(plan.ep) * float(plan.etp)


ZOO = (
    "llama3-8b", "gpt3-175b", "qwen2.5-7b", "qwen3-8b", "mixtral-8x7b", "deepseek-v2-lite", "gemma2-9b",
    "gpt-oss-20b",
)  # fmt: skip


@every("name", ZOO)
def test_the_operators_hold_the_weights_of_the_model(name: str) -> None:
    """The zoo's counts are checked against what the authors print.

    The operators leave out sinks and the biases of experts and routers: 0.03% of gpt-oss, nothing elsewhere.
    """
    model = load_model(name)
    assert params_held(model) == pytest.approx(model.params, rel=4e-4 if name == "gpt-oss-20b" else 2e-5)


@every("degrees", [{"tp": 2}, {"tp": 2, "pp": 2}, {"ep": 4}, {"ep": 2, "etp": 2, "tp": 2}])
def test_parallelism_spreads_weights_and_copies_few(degrees: dict[str, int]) -> None:
    """Norms and the router are copied to every tensor rank: far less than a hundredth of the weights."""
    model = MODELS["experts"]
    whole = params_held(model)
    assert whole <= params_held(model, **degrees) <= whole * 1.01


def test_key_heads_are_copied_where_there_are_too_few() -> None:
    model = MODELS["dense"]
    copied = 12 * 2 * 4 * 128 * 2048  # key and value projections of twelve layers, twice over on eight ranks
    assert params_held(model, tp=8) - params_held(model, tp=4) == pytest.approx(copied, rel=0.02)


def test_a_tied_head_on_another_rank_is_a_second_copy() -> None:
    model = MODELS["tied"]
    extra = params_held(model, pp=2) - params_held(model)
    assert extra == model.vocab * model.hidden


@every(
    ("seq", "window", "chunked"),
    [(512, None, False), (512, 128, False), (512, 128, True), (512, 4096, False), (512, 4096, True)],
)
def test_mean_keys_by_counting_pairs(seq: int, window: int | None, chunked: bool) -> None:
    def reach(query: int) -> int:
        start = query - query % window if chunked and window else max(0, query + 1 - (window or seq))
        return query + 1 - start

    counted = sum(reach(query) for query in range(seq)) / seq
    assert mean_keys(float(seq), window, chunked) == pytest.approx(counted, abs=0.51)


def test_layers_weigh_what_they_compute() -> None:
    weights = layer_weights(MODELS["sliding"], 8192)
    # A whole causal sequence of 8,192 against a window of 512: 4,096 and 496 keys, 2 * 16 heads of 128.
    assert weights["b"] - weights["a"] == pytest.approx(2 * (4096 - 496) * 16 * 256)
    assert weights["head"] == 2 * 32000 * 2048


def test_a_plan_keeps_its_own_split() -> None:
    work = job()
    plan = plan_of(work, pp=2, stage_layers=(5, 7))
    case = case_of(plan, work, runtime())
    assert split_of(plan, case) == with_split(plan, case).stage_layers == (5, 7)
    assert with_split(plan_of(work, pp=2), case).stage_layers == (6, 6)


def test_totals_are_columns_where_pipelines_differ() -> None:
    work = job(MODELS["tied"], 8)
    plans = [plan_of(work, pp=pp) for pp in (1, 2)]
    table = total_table([ranks_of(plan, case_of(plan, work, runtime())) for plan in plans])
    assert table["a", False] == 10.0
    assert table["head", False].tolist() == [0, 1]  # type: ignore[union-attr]
    assert table["tied_head", False].tolist() == [1, 0]  # type: ignore[union-attr]


def test_only_what_recompute_names_runs_again() -> None:
    work = job()
    plan = plan_of(work, recompute="selective:mlp")
    case = case_of(plan, work, runtime())
    layers = priced_layers(case, plan, [("a", True)])
    pieces = [("a", True), ("a", False)]
    details, costs = piece_details(case, plan, layers, pieces), piece_costs(case, plan, layers, pieces)
    assert details["a", False].recompute == 0 < details["a", True].recompute
    # Three matrices of 2,048 by 8,192, 2,048 tokens.
    assert details["a", True].recompute_flops == 2 * 3 * 2048 * 8192 * 2048
    assert costs["a", True].seconds > costs["a", False].seconds


def test_the_head_of_a_model_with_extra_prediction_layers_weighs_them_too() -> None:
    """Each has a block, a projection of two streams, and the head again (arXiv:2412.19437, sec. 2.2)."""
    model = MODELS["latent"]
    weights = layer_weights(model, 2048)
    head = 2 * model.vocab * model.hidden
    assert weights["head"] == head + weights["b"] + head + 2 * 2 * model.hidden * model.hidden


@every("degrees", [{}, {"tp": 2}, {"tp": 2, "etp": 2}, {"tp": 4, "ep": 4}, {"tp": 4, "etp": 2}])
def test_the_ranks_of_a_layer_share_the_flops_of_its_routed_experts(degrees: dict[str, int]) -> None:
    """Tokens times experts of each, three products of 2,048 by 2,048, whatever the layout."""
    work = job(MODELS["experts"], 8)
    plan = plan_of(work, sequence_parallel=True, **degrees)
    case = case_of(plan, work, runtime())
    operators = priced_layers(case, plan, [("a", False)])["a"].operators
    one_rank = sum(float(operator.flops) for operator in operators if operator.expert)
    assert one_rank * float(plan.tp) == 2 * 2048 * 2 * 3 * 2048 * 2048
