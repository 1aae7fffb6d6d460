"""Recompute: how choices are read, and the activation bytes of the Megatron paper, entry by entry."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import again_share, layer_cost, layer_detail, priced_layer
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.layer.operators import Pricer
from planner.errors import InputError
from planner.runtimes import runtimes
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import MODULES, read_choice
from planner.techniques.schedules import SCHEDULES
from tests.cases import every
from tests.unit.cost_jobs import GPT, LATENT, job, model, plan_of, runtime

TABLE = dict(RECOMPUTES)
SEQ, BATCH, HIDDEN, HEADS = 1024, 4, 2048, 16
SBH, SCORES = SEQ * BATCH * HIDDEN, 5 * HEADS * SEQ**2 * BATCH
STATISTICS = 2 * 4 * SEQ * BATCH
"""The norms keep one fp32 number for each token, which the paper leaves out. [byte]"""


def layer(tp: int, sequence_parallel: bool, recompute: str) -> LayerCost:
    """Price a layer of a GPT of 2020, its softmax fused, attention and residual dropout on."""
    work = job(GPT, 8, seq_len=SEQ, global_batch=BATCH, precision="fp16")
    megatron = runtime(attention="fused-softmax", dropout=True)
    plan = plan_of(work, tp=tp, micro_batch=BATCH, sequence_parallel=sequence_parallel, recompute=recompute)
    pricer = Pricer(case_of(plan, work, megatron), plan)
    return layer_cost(priced_layer(pricer, "a"), pricer.case.recompute, pricer)


@every(
    ("tp", "sequence_parallel", "recompute", "printed", "statistics"),
    [
        (1, False, "none", 34 * SBH + SCORES, STATISTICS),
        (4, False, "none", (10 + 24 / 4) * SBH + SCORES / 4, STATISTICS),
        (4, True, "none", (34 * SBH + SCORES) / 4, STATISTICS / 4),
        (4, False, "selective", (10 + 24 / 4) * SBH, STATISTICS),
        (4, True, "selective", 34 * SBH / 4, STATISTICS / 4),
        (8, True, "selective", 34 * SBH / 8, STATISTICS / 8),
        (1, False, "full", 2 * SBH, 0),
    ],
)
def test_activation_bytes_of_a_layer(
    tp: int, sequence_parallel: bool, recompute: str, printed: float, statistics: float
) -> None:
    """arXiv:2205.05198, table 2: 34 sbh + 5 a s^2 b and what parallelism and recompute leave."""
    assert layer(tp, sequence_parallel, recompute).held == pytest.approx(printed + statistics, rel=1e-12)


@every(("heads", "hidden", "printed"), [(96, 12288, 80), (128, 20480, 64)])
def test_the_share_that_selective_recompute_saves(heads: int, hidden: int, printed: int) -> None:
    """arXiv:2205.05198, sec. 5: 5 a s / h is 80 for GPT-3, 64 for MT-NLG, so 70% and 65% are saved."""
    assert 5 * heads * 2048 / hidden == printed
    assert printed / (34 + printed) == pytest.approx({80: 0.70, 64: 0.65}[printed], abs=0.005)


@every(("pp", "vpp", "microbatches"), [(4, 2, 16), (8, 3, 64), (8, 4, 32)])
def test_the_first_rank_holds_all_layers_and_a_little_more_when_interleaved(
    pp: int, vpp: int, microbatches: int
) -> None:
    """arXiv:2205.05198, sec. 4.2.3: L layers' worth; 1 + (p - 1) / (p m) with m chunks when interleaved."""
    plain = SCHEDULES["1f1b"].in_flight_chunks(pp, 1, microbatches, 0)
    chunks = SCHEDULES["interleaved-1f1b"].in_flight_chunks(pp, vpp, microbatches, 0)
    assert plain == pp
    assert chunks / vpp / plain == pytest.approx(1 + (pp - 1) / (pp * vpp))


@every(("recompute", "scores"), [("none", SCORES), ("selective", 0), ("full", 0)])
def test_the_input_gradient_frees_the_scores(recompute: str, scores: float) -> None:
    """arXiv:2401.10241, table 1: 34 sbh + 5 a s^2 b wait for it, 32 sbh for the weight gradient after it.

    The 2 sbh between them, masks of dropout and a norm's input, are left with what waits.
    """
    assert layer(1, False, recompute).scores == scores


@every(("schedule", "waiting"), [("1f1b", 0), ("zb-h1", 3), ("zb-1p", 3)])
@every("attention", ["fused-softmax", "flash-2"])
def test_a_stage_holds_no_scores_of_what_waits_for_weight_gradients(
    schedule: str, waiting: int, attention: str
) -> None:
    """Rank 3 of 4 has one whole micro-batch in flight, and under ZB-H1 three that wait."""
    work = job(GPT, 4, seq_len=SEQ, global_batch=8 * BATCH, precision="fp16")
    plan = plan_of(work, pp=4, micro_batch=BATCH, schedule=schedule)
    megatron = runtime(attention=attention, dropout=True)
    one = work.model.num_layers // 4
    pricer = Pricer(case_of(plan, work, megatron), plan)
    held = float(layer_cost(priced_layer(pricer, "a"), pricer.case.recompute, pricer).held)
    scores = SCORES if attention == "fused-softmax" else 0.0
    head = float(layer_cost(priced_layer(pricer, "head"), pricer.case.recompute, pricer).held)
    expected = one * (held + waiting * (held - scores)) + head
    assert estimate(plan, work, megatron).stages[3].activations == pytest.approx(expected, rel=1e-12)


def test_what_is_not_held_is_rebuilt() -> None:
    kept, selective, whole = (layer(1, False, choice) for choice in ("none", "selective", "full"))
    gradient = 2 * HEADS * SEQ**2 * BATCH
    assert kept.rebuilt == gradient, "16 bit of the widest result: the scores without a flash kernel"
    again = [choice.held + choice.rebuilt - gradient for choice in (selective, whole)]
    assert again == [kept.held, kept.held]
    assert kept.seconds < selective.seconds < whole.seconds
    assert whole.seconds == pytest.approx(kept.seconds + kept.forward)


@every(
    ("text", "whole", "modules", "layers"),
    [
        ("none", False, set(), 0),
        ("selective", False, {"core_attn"}, inf),
        ("selective:mlp+norm", False, {"mlp", "norm"}, inf),
        ("full", True, set(), inf),
        ("every-layer", True, set(), inf),
        ("full:3", True, set(), 3),
    ],
)
def test_choices_are_read(text: str, whole: bool, modules: set[str], layers: float) -> None:
    choice = read_choice(TABLE, text)
    assert (choice.whole_layer, choice.modules, choice.layers) == (whole, modules, layers)


@every(
    ("text", "expected"),
    [
        ("fulll", "full"),
        ("full:0", "full:N"),
        ("full:-1", "full:N"),
        ("full:x", "full:N"),
        ("selective:atention", "modules joined by +"),
        ("selective:mlp+", "modules joined by +"),
        ("none:1", "without an argument"),
        ("", "one of"),
    ],
)
def test_a_wrong_choice_is_told_with_what_is_right(text: str, expected: str) -> None:
    with pytest.raises(InputError) as raised:
        read_choice(TABLE, text)
    assert expected in str(raised.value)


@every("module", MODULES)
def test_every_module_names_operators_of_some_layer(module: str) -> None:
    """A name that no operator has would recompute nothing without a word."""
    from tests.unit.cost_jobs import MODELS

    found: set[Any] = set()
    for spec in MODELS.values():
        work = job(spec, 8)
        pricer = Pricer(case_of(plan_of(work), work, runtime()), plan_of(work))
        for name in spec.blocks:
            found |= {operator.module for operator in priced_layer(pricer, name).operators}
    assert module in found


QWEN = {
    "mixer": {"kind": "attention", "heads": 32, "kv_heads": 4, "head_dim": 128, "qk_norm": "head"},
    "ffn": {"kind": "moe", "experts": 128, "topk": 8, "inner": 768},
}
LATENT_EXPERTS = {
    "mixer": LATENT,
    "ffn": {"kind": "moe", "experts": 8, "topk": 2, "inner": 1024, "shared_inner": 1024},
}


def titan(block: dict[str, Any], ep: int) -> tuple[Pricer, LayerCost]:
    """Price a layer of torchtitan under its selective recompute."""
    work = job(model("m", {"a": block}, "4 a"), 8, seq_len=SEQ, global_batch=8)
    plan = plan_of(work, ep=ep, recompute="selective")
    pricer = Pricer(case_of(plan, work, runtimes()["torchtitan"]), plan)
    return pricer, layer_cost(priced_layer(pricer, "a"), pricer.case.recompute, pricer)


@every(("ep", "brought"), [(1, 0), (8, 2 * 2 * 8 * HIDDEN)])
def test_of_experts_selective_recompute_keeps_what_messages_bring_and_no_product(
    ep: int, brought: int
) -> None:
    """Torchtitan b5bcd76c, ``SelectiveAC``, with PyTorch 2.13's ``get_default_op_list``, by hand.

    Kept of a token: the layer's input, queries and values (the first and third product, not the second),
    attention's result and its logarithm of sums, and what two all-to-alls brought; no grouped product.
    """
    attention = 2 * 32 * 128 + 2 * 4 * 128 + 2 * 32 * 128 + 4 * 32
    statistics = 4
    _, cost = titan(QWEN, ep)
    assert float(cost.held) / SEQ == 2 * HIDDEN + attention + brought + statistics


@every(("ep", "all_products"), [(1, True), (8, False)])
def test_grouped_products_run_again_but_for_the_last_if_its_result_was_sent(
    ep: int, all_products: bool
) -> None:
    pricer, _ = titan(QWEN, ep)
    layer = priced_layer(pricer, "a")
    shares = {op.name: again_share(op, pricer.case.recompute, pricer) for op in layer.operators}
    assert (shares["experts_in"], shares["experts_out"]) == (1.0, float(all_products))
    assert shares["router"] == 1.0


def test_every_second_product_of_latent_attention_and_shared_experts_runs_again() -> None:
    """In order: down and up for queries, down and up for keys and values, result; gate, up, down."""
    pricer, _ = titan(LATENT_EXPERTS, 1)
    shares = {op.name: op.second for op in priced_layer(pricer, "a").operators if op.flops}
    assert [shares[name] for name in ("latent_down", "query_up", "key_value_up", "attention_out")] == [
        0,
        1,
        1,
        0,
    ]
    assert [shares[name] for name in ("shared_experts_in", "shared_experts_out")] == [0.5, 1.0]


def test_where_every_second_product_is_kept_their_inputs_are_gathered_again() -> None:
    """Reduce-scatters are kept (torchtitan, ``SelectiveAC``): of four messages forward the two gathers."""

    def sent(recompute: str) -> tuple[float, float, float]:
        work = job(GPT, 8, seq_len=SEQ, global_batch=BATCH, precision="bf16")
        plan = plan_of(work, tp=4, zero=3, micro_batch=BATCH, sequence_parallel=True, recompute=recompute)
        pricer = Pricer(case_of(plan, work, runtimes()["torchtitan"]), plan)
        layer = priced_layer(pricer, "a")
        detail = layer_detail(layer, pricer.case.recompute, pricer)
        forward = layer.exchanges.tp
        return float(detail.tp), float(detail.tp_sent), float(forward.forward / 2)

    (plain, bytes_plain, half), (again, bytes_again, _) = sent("none"), sent("selective")
    assert again - plain == pytest.approx(half)
    assert bytes_again - bytes_plain == pytest.approx(2 * 3 / 4 * 2 * SBH)
