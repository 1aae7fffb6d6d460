"""The formulas that `explain --formulas` shows are those that made the estimate, and are readable."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

import planner.formulas
from planner.cost.estimate import Estimate, estimate
from planner.cost.layer.communication import routed_seconds
from planner.cost.layer.operators import Pricer
from planner.cost.traffic.data_parallel import gradient_seconds, groups
from planner.formulas.model_flops import model_flops
from planner.inputs.model import Experts
from planner.report.explain_formulas import Use, formulas_document, formulas_page, terms_of
from planner.report.formula_text import formula_text, plain_equation
from planner.report.waterfall import Anatomy
from tests.cases import every
from tests.unit.cost_jobs import MODELS, any_runtime, job, plan_of, random_plans, runtime


def formulas() -> list[Callable[..., Any]]:
    modules = [importlib.import_module(f"planner.formulas.{info.name}")
               for info in pkgutil.iter_modules(planner.formulas.__path__)]  # fmt: skip
    return [
        function
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and ".. math::" in (function.__doc__ or "")
    ]


@every("function", formulas(), ids=lambda function: function.__name__)
def test_every_equation_is_told_without_marks(function: Callable[..., Any]) -> None:
    text = formula_text(function)
    assert text.equation
    assert text.summary
    assert not set("\\{}$`") & set(text.equation + text.summary + text.source)
    assert text.equation.count("(") == text.equation.count(")")


@every(
    ("latex", "plain"),
    [
        (r"t = t_0 + \frac{S}{e\,W}", "t = t_0 + S / (e W)"),
        (r"\frac{a}{\frac{b}{c}}", "a / (b / c)"),
        (r"x^{2} \cdot \lfloor m / p \rfloor", "x^(2) · floor(m / p)"),
        (r"\sqrt{\rho\,x}", "sqrt(rho x)"),
    ],
)
def test_equations_in_plain_signs(latex: str, plain: str) -> None:
    assert plain_equation(latex) == plain


def uses_of(answer: Estimate) -> dict[str, list[Use]]:
    found: dict[str, list[Use]] = {}
    for use in terms_of(answer):
        found.setdefault(use.term, []).append(use)
    return found


ASKED = job()
RUNTIME = runtime()
ANSWER = estimate(plan_of(ASKED, tp=2, pp=2, zero=1, sequence_parallel=True, micro_batch=2), ASKED, RUNTIME)
ANATOMY = Anatomy(ANSWER)
USES = uses_of(ANSWER)
OPERATORS = {op.name: op for op in ANATOMY.layers["a"].operators}


def test_the_product_shown_is_the_one_priced() -> None:
    product = USES["compute"][2]
    assert product.result / ANATOMY.case.derate == pytest.approx(OPERATORS["mlp_in"].forward)
    assert [use.function.__name__ for use in USES["compute"]] == [
        "gemm_compute_seconds", "gemm_memory_seconds", "gemm_seconds", "attention_forward_seconds",
    ]  # fmt: skip


def test_the_attention_shown_is_the_one_priced() -> None:
    attention = USES["compute"][3]
    share = ANATOMY.case.derate * RUNTIME.traits.attention.share
    assert attention.result / share == pytest.approx(OPERATORS["attention"].forward)


def test_four_gathers_or_scatters_are_the_forward_pass_of_a_layer() -> None:
    (gather,) = USES["tp_comm"]
    exchange = ANATOMY.layers["a"].exchanges.tp
    assert 4 * gather.result * RUNTIME.traits.tensor.exposed == pytest.approx(exchange.forward)


@every(
    "traits",
    [
        {"dispatcher": "all-to-all"},
        {"dispatcher": "fused"},
        {"dispatcher": "fused", "neighbouring_experts": True},
    ],
    ids=["all-to-all", "fused", "neighbours"],
)
def test_the_dispatch_shown_is_the_one_priced(traits: dict[str, Any]) -> None:
    work = job(MODELS["experts"], 16)
    plan = plan_of(work, ep=8)
    answer = estimate(plan, work, runtime(**traits))
    (use,) = uses_of(answer)["ep_comm"]
    experts = next(ffn for ffn in work.model.ffns if isinstance(ffn, Experts))
    token = 2.0 * float(Pricer(answer.case, plan).local_tokens) * work.model.hidden
    shown = routed_seconds(answer.case, plan, token, experts.picks, experts.experts)
    assert use.result == pytest.approx(float(shown))


def test_the_bubble_shown_is_that_of_the_estimate() -> None:
    (bubble,) = USES["bubble"]
    assert bubble.result == pytest.approx(ANSWER.time.bubble, rel=1e-6)


def test_one_reduction_is_the_gradient_traffic() -> None:
    held, stage = ANATOMY.parts.passes.weights, ANATOMY.parts.slowest
    (group,) = groups(ANATOMY.case, ANSWER.plan, held.on(stage))
    plain = estimate(ANSWER.plan, ASKED, runtime(dp_byte_seconds=0.0))
    shown = uses_of(plain)["dp_comm"][0].result
    assert shown == pytest.approx(float(gradient_seconds(Anatomy(plain).case, group)))


def test_the_layers_shown_and_the_head_are_the_model_flops() -> None:
    (layer,) = USES["mfu"]
    head = model_flops(float(ASKED.workload.tokens_per_step), 32000.0 * 2048, 0.0, 0.0)
    assert 12 * layer.result + head == pytest.approx(ANSWER.model_flops)


def test_the_chance_to_run_out_is_that_of_the_estimate() -> None:
    (chance,) = USES["memory"]
    assert chance.result == ANSWER.oom_probability


@pytest.mark.parametrize("model", MODELS)
def test_any_plan_has_formulas_that_can_be_told(model: str) -> None:
    asked, who = job(MODELS[model]), any_runtime()
    for plan in random_plans(asked, who, 6, seed=3):
        uses = terms_of(estimate(plan, asked, who))
        assert {"compute", "optimizer", "memory"} <= {use.term for use in uses}
        for row in formulas_document(uses)["formulas"]:
            assert row["result"] is not None
            assert row["equation"] or row["source"]
        assert len(formulas_page(uses)) == len(uses)
