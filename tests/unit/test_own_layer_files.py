"""Models whose layers are Megatron-Bridge's own: what is taken for Megatron-core's, written and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.ends import head_operators
from planner.cost.layer.operators import Pricer
from planner.cost.legal import all_rules
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge.own_layers import own_layers
from tests.cases import every
from tests.cli.command import planner
from tests.deep import deep

BRIDGE, CORE = runtimes()["megatron-bridge"], runtimes()["megatron-lm"]
PLAN = Plan(
    tp=2.0, dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=8.0, sequence_parallel=True
)
NAMES = (
    "gemma-2b", "gemma-7b", "gemma2-2b", "gemma2-9b", "gemma2-27b", "gemma3-1b", "gemma3-4b", "gemma3-12b",
    "gemma3-27b", "mimo-v2-flash", "minimax-m2.5", "olmoe-1b-7b", "exaone-4.0-32b",
    "k-exaone-236b-a23b", "gemma4-26b-a4b",
)  # fmt: skip


def job(model: ModelSpec, **work: Any) -> Job:
    fields = {"seq_len": 4096, "global_batch": 64} | work
    return Job(model, load_hardware("dgx-h100"), 16, Workload(**fields))


def broken(model: ModelSpec, plan: Plan = PLAN, **work: Any) -> set[str]:
    asked = job(model, **work)
    own = BRIDGE.for_model(model)
    return {one.rule for one in violations(all_rules(plan, case_of(plan, asked, own)))}


@pytest.mark.parametrize("name", NAMES)
def test_files_are_read_back_as_priced(tmp_path: Path, name: str) -> None:
    plan = replace(PLAN, tp=1.0, dp=16.0, zero_shards=16.0, num_microbatches=4.0, sequence_parallel=False)
    other = replace(plan, ep=16.0 if load_model(name).expert_kinds else 1.0)
    for number, one in enumerate(deep((PLAN, other)[NAMES.index(name) % 2 :][:1], (PLAN, other))):
        asked = job(BRIDGE.trained(load_model(name)))
        own = BRIDGE.for_model(asked.model)
        files = launch_files(one, asked, Target(own, launchers()["torchrun"], own.versions[0]), Card())
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text, "utf-8")
        said = ("--from", str(folder / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
        told = planner("estimate", *said)
        assert told.code in (0, 1), told.err  # 1 where the largest do not fit
        assert told.json["step_time_s"] == pytest.approx(float(estimate(one, asked, own).step), rel=1e-6)
        assert told.json["model"]["name"] == name, json.dumps(told.json["model"])


def changed(name: str, **numbers: Any) -> ModelSpec:
    model = load_model(name)
    return model.model_copy(update={"numerics": model.numerics.model_copy(update=numbers)})


@every(
    ("name", "numbers"),
    [
        ("gemma-7b", {"embedding_scale": 2.0}),
        ("gemma-7b", {"activation": "gelu"}),
        ("gemma-7b", {"attention_softcap": 50.0}),
        ("gemma2-9b", {"residual_scale": 0.5}),
        ("gemma2-9b", {"attention_scale": 0.3}),
        ("gemma3-4b", {"logit_softcap": 30.0}),
        ("gemma3-4b", {"local_rope_theta": None}),
        ("mimo-v2-flash", {"logit_softcap": 30.0}),
        ("mimo-v2-flash", {"router": None}),
        ("gemma4-26b-a4b", {"attention_scale": None}),
        ("gemma4-26b-a4b", {"attention_softcap": 50.0}),
        ("exaone-4.0-32b", {"logit_softcap": 30.0}),
        ("k-exaone-236b-a23b", {"logit_softcap": 30.0}),
    ],
)
def test_what_no_provider_builds_is_refused(name: str, numbers: dict[str, Any]) -> None:
    assert not broken(load_model(name))
    assert "model-expressible" in broken(changed(name, **numbers))


def test_layers_in_another_order_are_refused() -> None:
    model = load_model("gemma2-9b")
    assert own_layers(model.model_copy(update={"layers": model.layers[::-1]})) is None
    model = load_model("gemma3-4b")
    assert own_layers(model.model_copy(update={"layers": model.layers[::-1]})) is not None
    model = load_model("mimo-v2-flash")
    assert own_layers(model.model_copy(update={"layers": model.layers[1:]})) is None


@every(
    ("name", "plan", "work", "rule"),
    [
        ("mimo-v2-flash", PLAN, {"method": "lora"}, "own-layers-train-whole"),
        ("gemma4-26b-a4b", PLAN, {"method": "lora"}, "own-layers-train-whole"),
        ("gemma2-9b", replace(PLAN, cp=2.0, dp=4.0), {}, "own-layers-whole-sequence"),
        ("gemma4-26b-a4b", replace(PLAN, recompute="selective:norm"), {}, "own-layers-keep-norms"),
        ("mimo-v2-flash", replace(PLAN, cp=2.0, dp=4.0), {}, "own-layers-whole-sequence"),
        ("exaone-4.0-32b", replace(PLAN, cp=2.0, dp=4.0), {}, "own-layers-whole-sequence"),
        ("mimo-v2-flash", replace(PLAN, tp=8.0, dp=2.0, zero_shards=2.0), {}, "own-layers-split-groups"),
    ],
)
def test_rules_of_own_layers(name: str, plan: Plan, work: dict[str, Any], rule: str) -> None:
    assert rule in broken(load_model(name), plan, **work)


@every("name", ["minimax-m2.5", "olmoe-1b-7b", "k-exaone-236b-a23b"])
def test_adapters_stand_on_layers_of_experts(name: str) -> None:
    assert not broken(load_model(name), replace(PLAN, ep=8.0), method="lora", lora_rank=16)


def test_gemma_4_keeps_weights_of_values_that_nothing_reads() -> None:
    """Five layers of two key/value heads of 512 beside 2,816: Megatron-Bridge, ``Gemma4SelfAttention``."""
    model = load_model("gemma4-26b-a4b")
    built = BRIDGE.trained(model)
    assert built.params - model.params == 5 * 2 * 512 * 2816
    assert own_layers(built) is own_layers(model) is not None


@every("changes", [{"graphed": "attention"}, {"overlaps_shared_expert": True}, {"fused_activation": True}])
def test_gemma_4_runs_without_what_its_layers_pass_by(changes: dict[str, Any]) -> None:
    """Megatron-Bridge 067f987d, gemma4_provider.py, ``_validate_gemma4_moe_orchestration``."""
    asked = job(BRIDGE.trained(load_model("gemma4-26b-a4b")))
    own = BRIDGE.for_model(asked.model).with_traits(**changes)
    found = {one.rule for one in violations(all_rules(PLAN, case_of(PLAN, asked, own)))}
    assert "own-layers-run-plainly" in found


def test_a_layer_of_four_norms_has_two_of_them_in_its_products() -> None:
    """Gemma 3 on Bridge: the norms before attention and feed-forward are those of fused layers."""
    asked = job(load_model("gemma3-4b"))
    layer = priced_layer(Pricer(case_of(PLAN, asked, BRIDGE), PLAN), asked.model.layers[0])
    modules = [one.module for one in layer.operators if one.name.startswith("norm_")]
    assert modules == ["norm_in_product", "norm", "norm_in_product", "norm"]


@every("mixer", [{"chunked": True}, {"v_head_dim": 32}])
def test_megatron_core_has_neither_chunks_nor_values_of_their_own_width(mixer: dict[str, Any]) -> None:
    model = load_model("gpt-oss-20b")
    blocks = {
        name: block.model_copy(update={"mixer": block.mixer.model_copy(update=mixer)})  # type: ignore[union-attr]
        for name, block in model.blocks.items()
    }
    for runtime in (BRIDGE, CORE):
        asked = job(model.model_copy(update={"blocks": blocks}))
        assert runtime.cannot_train(asked)
        assert not runtime.cannot_train(job(model))


def test_a_bound_on_logits_costs_its_kernels_and_its_result() -> None:
    """Gemma 2 with and without it: 26 bytes of each logit move."""
    plan = replace(
        PLAN, tp=1.0, dp=16.0, zero=3, zero_shards=16.0, num_microbatches=4.0, sequence_parallel=False
    )
    models = (load_model("gemma2-2b"), changed("gemma2-2b", logit_softcap=None))
    whole, plain = (case_of(plan, job(model), runtimes()["fsdp"]) for model in models)
    bound, loss = (
        next(one for one in head_operators(Pricer(case, plan)) if one.name == "loss")
        for case in (whole, plain)
    )
    rate = float(loss.forward) / (float(whole.traits.loss.traffic) / 3)
    assert float(bound.forward - loss.forward) / rate == pytest.approx(12, rel=1e-2)
    assert float(bound.backward - loss.backward) / rate == pytest.approx(14, rel=1e-2)


@every("changes", [{"fp8_attention": True}, {"attention": "unfused"}])
def test_flex_attention_knows_no_other_kernel(changes: dict[str, Any]) -> None:
    for name, there in (("gemma2-9b", True), ("gemma3-4b", False)):
        asked = job(load_model(name), precision="fp8")
        own = BRIDGE.for_model(asked.model).with_traits(**changes)
        found = {one.rule for one in violations(all_rules(PLAN, case_of(PLAN, asked, own)))}
        assert ("flex-attention-alone" in found) == there


def test_norms_over_all_heads_are_a_chain_there() -> None:
    """An element of queries and keys is kept in fp32 and in 16 bit; 4,096 tokens, 48 and 8 heads of 128."""
    model = load_model("minimax-m2.5")
    asked, plan = job(model), replace(PLAN, tp=1.0, dp=16.0, zero_shards=16.0, sequence_parallel=False)
    found = []
    for traits in ({}, {"norms": "in-product"}):
        own = BRIDGE.for_model(model).with_traits(**traits)
        layer = priced_layer(Pricer(case_of(plan, asked, own), plan), model.layers[0])
        found.append(next(one for one in layer.operators if one.name == "qk_norm"))
    chain, fused = found
    assert float(chain.saved) == 6 * 4096 * (48 + 8) * 128
    assert float(fused.saved) == 2 * 4096 * (48 + 8) * 128
    assert float(chain.forward) > 3 * float(fused.forward)
