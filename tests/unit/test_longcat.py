"""Experts that compute nothing, and on a shortcut: LongCat-Flash and ScMoE by their papers' figures."""

from __future__ import annotations

from typing import Any

import pytest

from planner.calibrate.runs.unexpressed import unexpressed
from planner.cost.case import Case, case_of
from planner.cost.flops import product_weights
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.communication import block_exchanges, dense_path_seconds, routed_seconds
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.legal import all_rules
from planner.errors import InputError
from planner.formulas.shortcut import shortcut_window
from planner.formulas.zero_experts import mean_picks, peak_picks
from planner.inputs.hf_config import model_from_config
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import Experts, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.model_facts import model_kind, told_facts
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every

CONFIG: dict[str, Any] = {
    "model_type": "longcat_flash", "num_layers": 28, "hidden_size": 6144, "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048, "num_attention_heads": 64, "vocab_size": 131072, "q_lora_rank": 1536,
    "max_position_embeddings": 131072, "n_routed_experts": 512, "zero_expert_num": 256, "moe_topk": 12,
    "zero_expert_type": "identity", "attention_method": "MLA", "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "router_bias": False, "routed_scaling_factor": 6.0,
}  # fmt: skip
"""LongCat-Flash-Chat's ``config.json``, what this reads of it."""

EXPERT = 3 * 6144 * 2048
ATTENTION = 6144 * 1536 + 1536 + 1536 * 64 * 192 + 6144 * 576 + 512 + 512 * 64 * 256 + 64 * 128 * 6144
TABLES = 131072 * 6144


def longcat(**changed: Any) -> ModelSpec:
    return model_from_config(CONFIG | changed, "config.json", "longcat-flash").model


def experts(model: ModelSpec) -> Experts:
    return model.expert_kinds[0]


def without_zero_experts(model: ModelSpec, **changed: Any) -> ModelSpec:
    ffn = experts(model).model_copy(update={"zero_experts": 0, "topk": 8} | changed)
    block = model.blocks["moe"].model_copy(update={"ffn": ffn})
    return model.model_copy(update={"blocks": dict(model.blocks) | {"moe": block}})


def case(model: ModelSpec, plan: Plan) -> Case:
    work = Workload(seq_len=8192, global_batch=64)
    job = Job(model=model, hardware=load_hardware("dgx-h100"), workload=work, gpus=64)
    return case_of(plan, job, runtimes()["megatron-lm"])


def operators(model: ModelSpec) -> dict[str, Operator]:
    plan = Plan(dp=64.0, ep=64.0)
    layer = priced_layer(Pricer(case(model, plan), plan), "moe")
    return {operator.name: operator for operator in layer.operators}


def test_parameters_are_those_of_the_weights() -> None:
    """What transformers v5.23.0 makes on meta, 741,053,585,408, less the 28 x 256 unused up-projections."""
    dense, layers = 3 * 6144 * 12288, 28
    layer = 2 * (ATTENTION + dense + 2 * 6144) + 512 * EXPERT + 768 * 6144
    assert longcat().params == layers * layer + 2 * TABLES + 6144 == 560_664_958_976
    assert longcat().params == 741_053_585_408 - layers * 256 * 2 * 2048 * 6144
    assert longcat().num_layers == 56
    assert longcat().layers[:4] == ("moe", "dense", "moe", "dense")


def test_active_parameters_are_those_of_the_report() -> None:
    """18.6 to 31.3 B, 27 B in the mean (arXiv:2509.01322, sec. 2): 1.057 B for a real pick of each layer."""
    model = longcat()
    assert pytest.approx(1.057, abs=5e-4) == 28 * EXPERT / 1e9
    mean = model.active_params - TABLES
    assert experts(model).picks == 8.0
    for picks, told in ((0, 18.6), (8, 27.1), (12, 31.3)):
        assert (mean + 28 * EXPERT * (picks - 8)) / 1e9 == pytest.approx(told, abs=0.1)
    (told_row,) = [row for row in told_facts(model) if row["field"] == "active_params"]
    assert "19,499,079,680 to 32,182,654,976" in told_row["value"]
    assert model_kind(model) == "mla zero-experts shortcut moe"


def test_picks_are_a_mean_and_a_peak() -> None:
    """Of 12 picks 8 are real; a rank of t tokens sees 8 + 3 x 3 / sqrt(t) (arXiv:2509.01322, sec. 2.1)."""
    assert mean_picks(12, 512, 256) == 8.0
    assert [float(peak_picks(12, 8.0, tokens)) for tokens in (900.0, 8100.0)] == pytest.approx([8.3, 8.1])
    assert float(peak_picks(12, 8.0, 1.0)) == 12.0
    assert peak_picks(8, 8.0, 100.0) == 8


def test_work_memory_and_messages_grow_with_real_picks_alone() -> None:
    model, plain = longcat(), without_zero_experts(longcat())
    ours, theirs = operators(model), operators(plain)
    rise = float(peak_picks(12, 8.0, 8192.0)) / 8
    for name in ("experts_in", "experts_out"):
        assert float(ours[name].flops) == pytest.approx(rise * float(theirs[name].flops))
    assert float(ours["experts_in"].saved) == pytest.approx(rise * float(theirs["experts_in"].saved))
    assert float(ours["router"].params) == 1.5 * float(theirs["router"].params)
    assert float(ours["zero_experts"].forward) > 0
    assert product_weights(model.blocks["moe"], 6144) == product_weights(plain.blocks["moe"], 6144)
    plan = Plan(dp=64.0, ep=64.0)
    sent = [
        float(priced_layer(Pricer(case(one, plan), plan), "moe").exchanges.ep.forward_sent)
        for one in (model, plain)
    ]
    assert sent[0] == sent[1]


def test_messages_run_beside_the_dense_path_alone() -> None:
    """What is left of them is what the window is too short for, and their handling."""
    plan, model = Plan(dp=64.0, ep=64.0), longcat()
    waits = without_zero_experts(model, zero_experts=256, topk=12, shortcut=False)
    left = []
    for one in (case(model, plan), case(waits, plan)):
        pricer = Pricer(one, plan)
        made = list(priced_layer(pricer, "moe").operators)
        left.append(float(block_exchanges(pricer, one.model.blocks["moe"], made).ep.forward))
    token = 2.0 * float(pricer.local_tokens) * 6144
    picks = peak_picks(12, 8.0, float(pricer.local_tokens))
    messages = 2 * float(routed_seconds(one, plan, token, picks, 512))
    parts = operators(model)
    fed = sum(float(one.forward) for one in parts.values() if one.module == "shared_experts")
    path = float(dense_path_seconds(list(parts.values())))
    assert path > 2 * fed > 0
    exposed = one.traits.experts.exposed
    assert left[1] - left[0] == pytest.approx(exposed * messages - max(0.0, messages - path))
    assert left[0] < left[1]


@every("name", sorted(runtimes()))
def test_no_runtime_is_said_to_build_it(name: str) -> None:
    plan = Plan(dp=64.0, ep=8.0)
    work = Workload(seq_len=8192, global_batch=64)
    job = Job(model=longcat(), hardware=load_hardware("dgx-h100"), workload=work, gpus=64)
    found = {one.rule: one for one in violations(all_rules(plan, case_of(plan, job, runtimes()[name])))}
    assert "experts that compute nothing and experts on a shortcut" in str(found["experts-have-a-runner"])


@every(
    "changed",
    [
        {"zero_expert_type": "drop"},
        {"zero_expert_num": -1},
        {"router_bias": True},
        {"attention_method": "MHA"},
    ],
)
def test_other_architectures_of_the_type_are_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(changed))):
        longcat(**changed)


def test_no_other_type_has_experts_that_compute_nothing_in_silence() -> None:
    raw = {"model_type": "deepseek_v3", "zero_expert_num": 4}
    with pytest.raises(InputError, match="experts that compute nothing"):
        model_from_config(raw, "config.json", "m")


def test_run_tables_refuse_it_by_name_and_by_key() -> None:
    for name, notes in (("LongCat-Flash-Chat", ""), ("x", "zero-expert-num=256")):
        assert "experts that compute nothing" in unexpressed(name, notes, False)


def speedup(messages: float, window: float, left_out: float) -> float:
    """Return the speed-up over a step that waits for every message (arXiv:2404.05019, sec. 4)."""
    return 1 / (1 - left_out - min(messages, window))


TWO_EXPERTS = 1 - 1 / 1.24
"""Messages that one routed expert in place of two saves, of a training step: Table 1, shared expert."""


def test_half_of_the_messages_left_out_and_seventy_percent_of_the_rest_hidden() -> None:
    """1.49 times top-2 on 8 A30 by PCIe, 70% of messages hidden (arXiv:2404.05019, Table 1 and sec. 4)."""
    once = TWO_EXPERTS
    assert speedup(once, 0.7 * once, once) == pytest.approx(1.49, rel=0.005)
    assert speedup(once, 0.0, once) == pytest.approx(1.24)


@every(
    ("shared", "told"), [(1.24, (1.36, 1.43, 1.49)), (1.35, (1.54, 1.66, 1.82))], ids=["train", "inference"]
)
def test_windows_of_the_three_taps(shared: float, told: tuple[float, float, float]) -> None:
    """Table 1: two differences give attention and feed-forward; a shared expert is as wide as the latter."""
    once = 1 - 1 / shared
    feed_forward, attention = 1 / told[0] - 1 / told[1], 1 / told[1] - 1 / told[2]
    windows = [
        shortcut_window(attention, feed_forward, feed_forward, "before"),
        shortcut_window(attention, feed_forward, feed_forward, "between"),
        shortcut_window(attention, feed_forward, feed_forward, "input"),
    ]
    found = [float(speedup(once, window, once)) for window in windows]
    assert found == pytest.approx(told, rel=0.02)
    assert all(window < once for window in windows)


def test_all_messages_hidden_on_a_fast_link() -> None:
    """1.12 times top-2 on 8 A800 by NVLink, 100% hidden, messages 15% of the experts' time (Table 4).

    Then experts are 71% of the step; by Table 1 they are 65% of one of another model.
    """
    once = (1 - 1 / 1.12) / 2
    assert speedup(once, 1.0, once) == pytest.approx(1.12)
    assert 2 * once / 0.15 == pytest.approx(2 * TWO_EXPERTS / 0.60, rel=0.12)
