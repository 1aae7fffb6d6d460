"""The share of a step that curves give outside what they were fitted to: each family, each pass."""

from __future__ import annotations

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.layer.block_cost import layer_detail, priced_layer
from planner.cost.layer.operators import Operator, Pricer
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.runtimes import runtimes
from tests.cases import every
from tests.unit.cost_jobs import GQA, MODELS, job, model


def answer(spec: ModelSpec = MODELS["dense"], hardware: str = "dgx-h100", **fields: object) -> Estimate:
    gpus = int(fields.pop("gpus", 1))  # type: ignore[call-overload]
    seq_len = fields.pop("seq_len", 2048)
    values = {"tp": 1, "pp": 1, "dp": gpus, "micro_batch": 1, "num_microbatches": 4} | fields
    precision = "fp16" if "v100" in hardware else "bf16"
    work = job(spec, gpus, hardware, seq_len=seq_len, global_batch=4 * gpus, precision=precision)
    return estimate(Plan(**values), work, runtimes()["megatron-lm"])  # type: ignore[arg-type]


def operators(spec: ModelSpec, hardware: str = "dgx-h100", seq_len: int = 2048) -> dict[str, Operator]:
    work = job(spec, 1, hardware, seq_len=seq_len, global_batch=4)
    plan = Plan(num_microbatches=4)
    pricer = Pricer(case_of(plan, work, runtimes()["megatron-lm"]), plan)
    return {one.name: one for one in priced_layer(pricer, spec.layers[0]).operators}


def share(operator: Operator) -> float:
    return float(operator.extrapolated / (operator.forward + operator.backward))


def test_products_of_usual_shapes_are_inside() -> None:
    found = operators(MODELS["dense"])
    assert {name: share(one) for name, one in found.items() if share(one)} == {}
    assert answer().extrapolated_share == 0


def test_borrowed_curves_are_outside_with_all_that_they_time() -> None:
    # No link is used and no host waits: the compute of the step is what the curves say.
    found = answer(hardware="dgx-1-v100-16gb")
    assert found.extrapolated_share * found.step == pytest.approx(found.time.compute)


@every("recompute", ["full", "selective"])
def test_what_runs_again_counts_again(recompute: str) -> None:
    found = answer(hardware="dgx-1-v100-16gb", recompute=recompute)
    assert found.extrapolated_share * found.step == pytest.approx(found.time.compute)


def test_experts_with_few_rows_are_outside() -> None:
    # 2,048 tokens · 2 of 512 experts = 8 rows each, where 16 and more were measured; of 8 experts, 512 rows.
    thin = {"kind": "moe", "experts": 512, "topk": 2, "inner": 256}
    few = operators(model("thin", {"a": {"mixer": GQA, "ffn": thin}}, "2 a"))
    many = operators(MODELS["experts"])
    for name in ("experts_in", "experts_out"):
        assert share(many[name]) == 0
        assert float(few[name].outside_forward) == pytest.approx(float(few[name].forward))
        # The gradient's accumulation, 4 + 4 - 2 bytes of each of 512 · 3 · 256 · 2,048 weights in all, is
        # bound by memory at 0.85 of 3.35 TB/s, and is no grouped product.
    inside = sum(
        float(few[name].backward - few[name].outside_backward) for name in ("experts_in", "experts_out")
    )
    assert inside == pytest.approx(6 * 512 * 3 * 256 * 2048 / (0.85 * 3.35e12))


def test_sequences_and_head_sizes_without_a_curve_are_outside() -> None:
    # On H100, sequences of 1,024 to 16,384 and heads of 64, 128, 192 and 256 were measured.
    assert share(operators(MODELS["dense"], seq_len=2048)["attention"]) == 0
    assert share(operators(MODELS["dense"], seq_len=32768)["attention"]) == pytest.approx(1)
    odd = model(
        "odd", {"a": {"mixer": GQA | {"head_dim": 96}, "ffn": {"kind": "dense", "inner": 8192}}}, "2 a"
    )
    assert share(operators(odd)["attention"]) == pytest.approx(1)


def test_weight_gradients_over_few_tokens_are_outside() -> None:
    # 256 tokens: rows of the forward product were measured from 256, the inner dimension from 512.
    qkv = operators(MODELS["dense"], seq_len=256)["qkv"]
    assert qkv.outside_forward == 0
    assert qkv.outside_backward == pytest.approx(float(qkv.weight_gradient))


def test_early_stop_does_not_repeat_the_last_product() -> None:
    work = job(MODELS["dense"], 1, "dgx-1-v100-16gb", global_batch=4)
    plan = Plan(num_microbatches=4, recompute="full")
    fsdp = runtimes()["fsdp"]
    fsdp = fsdp.with_traits(checkpointing="early-stop")
    pricer = Pricer(case_of(plan, work, fsdp), plan)
    layer = priced_layer(pricer, "a")
    detail = layer_detail(layer, pricer.case.recompute, pricer)
    forward = sum(float(one.outside_forward) for one in layer.operators)
    backward = sum(float(one.outside_backward) for one in layer.operators)
    last = float(layer.operators[-2].outside_forward)
    assert layer.operators[-2].name == "mlp_out"
    assert float(detail.extrapolated) == pytest.approx(2 * forward + backward - last)


@every(("sequence_parallel", "share"), [(True, 1 / 4), (False, 1 / 2)])
def test_early_stop_does_not_repeat_the_last_message(sequence_parallel: bool, share: float) -> None:
    """Of two gathers and two reduce-scatters the last; of two all-reduces the last."""
    work = job(MODELS["dense"], 8, "dgx-h100", global_batch=4)
    plan = Plan(num_microbatches=4, recompute="full", tp=8, sequence_parallel=sequence_parallel)
    sent = []
    for early in (False, True):
        fsdp = runtimes()["fsdp"].with_traits(checkpointing="early-stop" if early else "reentrant")
        pricer = Pricer(case_of(plan, work, fsdp), plan)
        layer = priced_layer(pricer, "a")
        sent.append(float(layer_detail(layer, pricer.case.recompute, pricer).tp_sent))
    assert sent[0] - sent[1] == pytest.approx(share * float(layer.exchanges.tp.forward_sent))
