"""Models that fill in masked tokens: what they cost by hand, and the scripts that train them."""

from __future__ import annotations

import ast

import pytest

from planner.cost.case import case_of
from planner.cost.flops import step_flops
from planner.cost.layer.attention_core import mean_keys
from planner.cost.layer.ends import head_operators
from planner.cost.layer.operators import Pricer
from planner.errors import UnsupportedPlan
from planner.inputs.load import load_model
from planner.plan import Plan
from planner.rules import structural_rules, violations
from planner.runtimes import runtimes
from planner.runtimes.hub.script_masks import with_masks
from planner.runtimes.libraries import libraries
from tests.cases import every
from tests.unit import runner_jobs as jobs

BERT = load_model("bert-base-uncased")
HIDDEN, LAYERS, SEQ, VOCAB = 768, 12, 512, 30522


def test_flops_of_bert_are_those_of_its_products() -> None:
    """Six for each weight and token; of scores and their sum over all keys 4 s h forward, thrice whole."""
    weights = LAYERS * 12 * HIDDEN**2 + HIDDEN**2 + VOCAB * HIDDEN
    wanted = 6 * weights + LAYERS * 12 * SEQ * HIDDEN
    assert step_flops(BERT, SEQ, 1.0) == pytest.approx(wanted, rel=1e-12)


@every(("seq", "side"), [(64, 5), (9, 8), (200, 64), (16, 40)])
def test_keys_of_a_window_on_both_sides_are_counted(seq: int, side: int) -> None:
    near = [sum(abs(query - key) <= side for key in range(seq)) for query in range(seq)]
    assert mean_keys(float(seq), 2 * side + 1, False, causal=False) == pytest.approx(sum(near) / seq)


def test_the_head_has_a_product_an_activation_and_a_norm_before_it() -> None:
    task, runtime = jobs.job(BERT, 8, seq_len=SEQ, global_batch=8), runtimes()["fsdp"].for_model(BERT)
    plan = Plan(dp=8.0, zero=2, zero_shards=8.0)
    found = {one.name: one for one in head_operators(Pricer(case_of(plan, task, runtime), plan))}
    assert list(found) == ["head_product", "head_activation", "head_norm", "head", "loss"]
    assert float(found["head_product"].params) == HIDDEN * (HIDDEN + 1)
    assert float(found["head_norm"].params) == 2 * HIDDEN
    assert sum(float(one.params) for one in found.values()) == BERT.head_params + VOCAB * HIDDEN
    assert float(found["head_product"].saved) == 2 * SEQ * HIDDEN


@every("name", ["fsdp", "deepspeed"])
def test_the_script_fills_in_masks_and_is_python(name: str) -> None:
    runtime, task = runtimes()[name], jobs.job(BERT, 8, seq_len=SEQ, global_batch=64)
    assert runtime.command is not None
    command = runtime.command(jobs.plan(task, zero=2), task, runtime.versions[0])
    script = dict(command.files or {})["train.py"]
    ast.parse(script)
    assert "MASKED_SHARE = 0.15" in script
    assert "AutoModelForMaskedLM" in script
    assert "AutoModelForCausalLM" not in script
    assert "(input_ids=inputs)" in script


def test_a_script_without_its_places_is_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        with_masks("\nclass Reader:\n\nclass Mock(Reader):\n")


@every("name", ["fsdp", "deepspeed"])
def test_adapters_beside_it_are_refused(name: str) -> None:
    task = jobs.job(BERT, 8, seq_len=SEQ, global_batch=64, method="lora", lora_rank=8)
    found = {one.rule for one in violations(runtimes()[name].rules(jobs.plan(task, zero=2), task))}
    assert "masks-trained-whole" in found


@every("library", libraries())
def test_tools_that_train_next_tokens_refuse_it(library: str) -> None:
    task = jobs.job(BERT, 8, seq_len=SEQ, global_batch=64)
    on = libraries()[library].on(runtimes()["fsdp"])
    assert on.command is not None
    with pytest.raises(UnsupportedPlan, match="fills in masked ones"):
        on.command(jobs.plan(task, zero=2), task, on.versions[0])


@every("name", ["gpt2", "opt-125m", "roberta-base"])
def test_no_sequence_is_longer_than_the_learned_positions(name: str) -> None:
    """Whatever the runtime; OPT's and RoBERTa's tables have two rows that are no positions."""
    model = load_model(name)
    most = {"gpt2": 1024, "opt-125m": 2048, "roberta-base": 512}[name]
    for seq_len, broken in ((most, set()), (most + 1, {"positions-cover-sequence"})):
        task = jobs.job(model, 8, seq_len=seq_len, global_batch=64)
        rules = structural_rules(jobs.plan(task), model, task.workload, 8)
        assert {one.rule for one in violations(rules)} == broken
