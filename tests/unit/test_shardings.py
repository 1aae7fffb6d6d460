"""Splits derived from the sums of operators, against the rules that prices have for every kind of block."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.communication import narrow_exchange, recurrent_exchange, tensor_exchange
from planner.cost.layer.einsums import Einsum, block_einsums
from planner.cost.layer.operators import COLUMN_SPLIT, ROW_SPLIT, Pricer
from planner.cost.layer.shardings import (
    ENDS,
    PARTIAL,
    Axis,
    ShardingChoice,
    _allowed,
    collective,
    derive,
    legal_choices,
    operators_of,
)
from planner.errors import InputError
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.model import Block, Experts, ModelSpec
from planner.inputs.own_block import OwnBlock, own_block
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.report.shardings import own_rows
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.techniques.context import CONTEXT_METHODS
from tests.cases import every
from tests.unit.cost_jobs import MODELS

RANKS, TOKENS = 4, 2048
BLOCKS = [(name, block) for name, model in MODELS.items() for block in model.blocks]


def einsums(model: ModelSpec, block: str) -> tuple[Einsum, ...]:
    return block_einsums(model.blocks[block], model.hidden, float(TOKENS))


def pricer(model: ModelSpec, sequence: bool = False, **degrees: float) -> Pricer:
    """Price one sequence on a group of ranks."""
    job = Job(model, load_hardware("dgx-h100"), RANKS, Workload(seq_len=TOKENS, global_batch=1))
    plan = replace(Plan(sequence_parallel=sequence), **{"micro_batch": 1.0, **degrees})  # type: ignore[arg-type]
    return Pricer(case_of(plan, job, runtimes()["megatron-lm"]), plan)


def told(model: ModelSpec, block: str, axis: Axis) -> list[tuple[str, str]]:
    derived = derive(einsums(model, block), axis, RANKS)
    assert derived is not None
    return [(one.kind, one.tensor) for one in derived.collectives]


def test_the_collectives_of_megatron_come_out_of_a_transformer_layer() -> None:
    """Two all-reduces (arXiv:1909.08053, sec. 3); gathers and reduce-scatters (arXiv:2205.05198, sec. 4.2.2).

    GSPMD makes the same of weights that are split along one axis of its mesh (arXiv:2105.04663, sec. 5.1).
    """
    model = load_model("llama3-8b")
    assert told(model, "dense", "tensor") == [("all-reduce", "attention_out"), ("all-reduce", "mlp_out")]
    assert told(model, "dense", "sequence") == [
        ("all-gather", "norm_0"),
        ("reduce-scatter", "attention_out"),
        ("all-gather", "norm_1"),
        ("reduce-scatter", "mlp_out"),
    ]


@every(("name", "block"), BLOCKS)
def test_products_are_split_by_columns_and_rows_as_the_prices_have_it(name: str, block: str) -> None:
    model = MODELS[name]
    derived = derive(einsums(model, block), "tensor", RANKS)
    assert derived is not None or model.blocks[block].mixer is None
    for product_, choice in derived.choices.items() if derived else ():
        if product_ in COLUMN_SPLIT:
            assert choice.writes == choice.weight == choice.index, product_
        if product_ in ROW_SPLIT:
            assert choice.writes == PARTIAL, product_


@every("axis", ["tensor", "sequence"])
@every(("name", "block"), BLOCKS)
def test_tensor_parallel_bytes_are_those_of_the_prices(name: str, block: str, axis: Axis) -> None:
    """Latent attention's gather may move what is compressed instead of the whole width, which is less."""
    model = MODELS[name]
    kind = model.blocks[block]
    shared = isinstance(kind.ffn, Experts) and not kind.ffn.shared_inner
    sublayers = len(kind.mixers) + (kind.ffn is not None and not shared)
    derived = derive(einsums(model, block), axis, RANKS)
    priced = tensor_exchange(pricer(model, axis == "sequence", tp=float(RANKS)), sublayers)
    sent = 2.0 * derived.sent if derived else 0.0
    latent = kind.attention is not None and kind.attention.kind == "latent"
    if latent and axis == "sequence":
        assert sent < float(priced.forward_sent)
    else:
        assert sent == pytest.approx(float(priced.forward_sent))


@every("name", ["delta", "parts"])
def test_a_scan_needs_the_two_exchanges_of_its_price(name: str) -> None:
    model = MODELS[name]
    for block, kind in model.blocks.items():
        if kind.recurrent is None:
            continue
        derived = derive(einsums(model, block), "context", RANKS)
        assert derived is not None
        assert [one.kind for one in derived.collectives] == ["all-to-all"] * 2
        priced = recurrent_exchange(pricer(model, cp=float(RANKS)), kind.recurrent)
        assert 2.0 * derived.sent == pytest.approx(float(priced.forward_sent))


def test_the_narrow_product_of_mamba_1_is_summed_over_the_ranks() -> None:
    """Its own two numbers: what the channels of every rank add to steps, inputs and outputs of the state."""
    block = Block(mixer=Mamba1(inner=256, step_rank=24, state=4), norms=1)
    derived = derive(block_einsums(block, 128, float(TOKENS)), "tensor", RANKS)
    assert derived is not None
    assert [(one.kind, one.tensor) for one in derived.collectives] == [
        ("all-reduce", "state_in"), ("all-reduce", "mixer_out"),
    ]  # fmt: skip
    known = pricer(MODELS["delta"], tp=float(RANKS))
    narrow = float(narrow_exchange(known, block).forward_sent)
    assert narrow == pytest.approx(2.0 * derived.sent * (24 + 2 * 4) / (24 + 2 * 4 + 128))


def forced(model: ModelSpec, block: str, index: str) -> float:
    """Return the elements that attention sends where its core is split along one index, tokens elsewhere."""
    core = next(one for one in einsums(model, block) if one.name == "attention")
    after = next(one for one in einsums(model, block) if one.name == "attention_out")
    choice = next(choice for choice in legal_choices(core) if choice.index == index)
    steps = [
        collective("t", wanted, core.elements(indices), RANKS)
        for (_, indices), wanted in zip(core.reads, choice.reads, strict=True)
    ]
    steps.append(collective(choice.writes, "t", after.elements("thv"), RANKS))
    return sum(step[1] for step in steps if step)


def test_attention_over_a_shared_sequence_needs_what_its_methods_send() -> None:
    """Heads split: queries, keys, values and results change places; tokens split: keys and values gather."""
    model = MODELS["dense"]
    mixer = model.blocks["a"].attention
    assert mixer is not None
    queries, keys = mixer.heads * 128.0, mixer.kv_heads * 256.0
    for index, method in (("h", "all-to-all"), ("t", "all-gather")):
        known = CONTEXT_METHODS[method]
        whole = known.forward_elements(TOKENS / RANKS, queries, keys, float(RANKS))
        assert forced(model, "a", index) == pytest.approx(float(whole * known.sent_share(float(RANKS))))


@every("name", ["experts", "latent", "delta", "parts"])
def test_experts_need_a_dispatch_and_a_combine(name: str) -> None:
    model = MODELS[name]
    for block, kind in model.blocks.items():
        derived = derive(einsums(model, block), "expert", RANKS)
        if not isinstance(kind.ffn, Experts):
            assert derived is None
            continue
        assert derived is not None
        one = TOKENS / RANKS * kind.ffn.topk * model.hidden * (RANKS - 1) / RANKS
        assert [(step.kind, step.sent) for step in derived.collectives] == [("all-to-all", one)] * 2


def brute(sums: tuple[Einsum, ...], axis: Axis) -> float:
    """Return the least that any combination of choices sends: all of them are tried."""
    sums = operators_of(sums, axis)
    options = [[choice for choice in legal_choices(one) if _allowed(one, choice, axis)] for one in sums]
    return min(_sent(sums, taken, ENDS[axis]) for taken in product(*options))


def _sent(sums: tuple[Einsum, ...], taken: tuple[ShardingChoice, ...], end: str) -> float:
    states, sent = {"x": end}, 0.0
    for one, choice in zip(sums, taken, strict=True):
        for (tensor, indices), wanted in zip(one.reads, choice.reads, strict=True):
            step = collective(states[tensor], wanted, one.elements(indices), RANKS)
            sent += float("inf") if step is None else step[1]
        states[one.name] = choice.writes
    last = collective(states[sums[-1].name], end, sums[-1].elements(sums[-1].writes), RANKS)
    return sent + (float("inf") if last is None else last[1])


@every(("name", "block"), [("dense", "a"), ("latent", "a"), ("delta", "a"), ("parts", "e")])
def test_no_combination_sends_less_than_the_one_found(name: str, block: str) -> None:
    sums = einsums(MODELS[name], block)
    for axis in ENDS:
        derived = derive(sums, axis, RANKS)
        if derived is not None:
            assert derived.sent == pytest.approx(brute(sums, axis))


def test_nothing_becomes_a_partial_sum_and_a_split_costs_its_way() -> None:
    """A ring: 2 (n-1)/n all-reduced, (n-1)/n gathered or scattered, (n-1)/n of a rank's part exchanged."""
    assert collective("t", PARTIAL, 64.0, 4.0) is None
    ways: dict[tuple[str, str], Any] = {
        (PARTIAL, "whole"): ("all-reduce", 96.0),
        (PARTIAL, "t"): ("reduce-scatter", 48.0),
        ("t", "whole"): ("all-gather", 48.0),
        ("t", "h"): ("all-to-all", 12.0),
        ("whole", "t"): ("", 0.0),
    }
    for (before, after), wanted in ways.items():
        assert collective(before, after, 64.0, 4.0) == wanted


OWN = """
format: planner/block/1
name: mine
sizes: {d: 1024, h: 16, c: 192, q: 64, w: 128, v: 64, f: 4096}
operators:
  - {name: norm, sum: "td->td", reads: [x], whole: d}
  - {name: qkv, sum: "td,dhc->thc", reads: [norm], whole: c}
  - {name: attention, sum: "thq,shw->thv", reads: [qkv, qkv], whole: qwv}
  - {name: out, sum: "thv,hvd->td", reads: [attention], whole: v}
  - {name: add, sum: "td,td->td", reads: [x, out]}
  - {name: up, sum: "td,df->tf", reads: [add]}
  - {name: down, sum: "tf,fd->td", reads: [up]}
  - {name: last, sum: "td,td->td", reads: [add, down]}
"""


def own(tmp_path: Path, text: str = OWN) -> OwnBlock:
    file = tmp_path / "block.yaml"
    file.write_text(text)
    found = own_block(str(file))
    assert found is not None
    return found


def test_a_block_of_ones_own_is_split_as_megatron_splits_its_like(tmp_path: Path) -> None:
    """Two all-reduces of 1,024 elements a token on 8 ranks, 2 x 7/8 of each sent; products by hand."""
    legal, derived = own_rows(own(tmp_path), 8)
    rows = {row["ranks_for"]: row for row in derived}
    assert rows["tensor"]["collectives"] == "all-reduce of out; all-reduce of down"
    assert rows["tensor"]["sent_elements_per_token"] == 2 * 2 * 7 / 8 * 1024
    assert rows["context"]["collectives"] == "all-to-all of qkv; all-to-all of attention"
    products = [row["product_flops_per_token"] for row in legal]
    assert products == [0, 2 * 1024 * 16 * 192, 0, 2 * 1024 * 1024, 0, 2 * 1024 * 4096, 2 * 1024 * 4096, 0]


@every(
    ("old", "new", "said"),
    [
        ("reads: [up]", "reads: [upp]", "nearest: up"),
        ("td,df->tf", "td,dg->tg", "found g; expected indices of"),
        ("name: add", "name: out", "a name of its own"),
        ("td,df->tf", "td,df->", "operators"),
        ('"tf,fd->td"', '"thv,fd->td"', "2 indices, as up writes tf"),
        ("reads: [norm]", "reads: [norm, x, x]", "an operand for each"),
    ],
)
def test_what_is_wrong_in_a_block_is_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        own(tmp_path, OWN.replace(old, new))
    assert said in str(caught.value)


def test_other_files_are_no_block(tmp_path: Path) -> None:
    other = tmp_path / "m.yaml"
    other.write_text("name: x")
    assert own_block(str(other)) is None
    assert own_block("llama3-8b") is None
