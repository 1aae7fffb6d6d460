"""Llama 4 on transformers: its config, its experts on all tokens, and sequences within a chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.legal import all_rules
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.hub.config import architecture, attention_name, hub_config
from tests.cases import every

PLAN = Plan(dp=256.0, zero=3, zero_shards=256.0, micro_batch=1.0, num_microbatches=1.0, recompute="full")
NAMES = ("llama4-scout", "llama4-maverick")


def job(model: ModelSpec, seq_len: int = 4096) -> Job:
    return Job(model, load_hardware("dgx-h100"), 256, Workload(seq_len=seq_len, global_batch=256))


def named(name: str, runtime: Runtime) -> Operator:
    model = load_model("llama4-scout")
    pricer = Pricer(case_of(PLAN, job(model), runtime.for_model(model)), PLAN)
    operators = block_operators(pricer, model.blocks[model.layers[0]])
    return next(one for one in operators if one.name == name)


@every("name", NAMES)
def test_the_config_is_read_back_as_the_model(name: str) -> None:
    model = load_model(name)
    assert architecture(model) == "llama4_text"
    assert attention_name(model, "flash-2") == "sdpa"
    again = model_from_config(hub_config(model, 4096), "config.json", name).model
    assert [again.blocks[one] for one in again.layers] == [model.blocks[one] for one in model.layers]
    assert (again.params, again.active_params, again.numerics, again.variants) == (
        model.params, model.active_params, model.numerics, model.variants
    )  # fmt: skip


@every("runtime", ["fsdp", "deepspeed"])
def test_every_expert_of_transformers_runs_on_all_tokens(runtime: str) -> None:
    """16 experts of which a token has one: sixteen times the rows of a runner that sends tokens."""
    here, tokens = runtimes()[runtime], 4096
    into = named("experts_in", here)
    assert float(into.flops) == 2 * 16 * tokens * 5120 * 2 * 8192
    assert float(named("permute", here).saved) == 2 * 2 * 16 * tokens * 5120


@every(
    ("plan", "seq_len", "rule"),
    [
        (PLAN, 4096, ""),
        (PLAN, 8191, ""),
        (PLAN, 8192, "sequence-within-chunk"),
        (replace(PLAN, tp=2.0, dp=128.0, zero_shards=128.0), 4096, "layer-without-tp"),
        (replace(PLAN, cp=2.0, dp=128.0), 4096, "layer-without-cp"),
    ],
)
def test_what_transformers_does_not_run_is_refused(plan: Plan, seq_len: int, rule: str) -> None:
    for name in ("fsdp", "deepspeed"):
        asked = job(load_model("llama4-scout"), seq_len)
        runtime = runtimes()[name].for_model(asked.model)
        broken = {one.rule for one in violations(all_rules(plan, case_of(plan, asked, runtime)))}
        assert (rule in broken) if rule else not broken, (name, broken)


def test_layers_of_another_kind_are_not_written() -> None:
    model = load_model("llama4-scout")
    turned: dict[str, Any] = {}
    for name, block in model.blocks.items():
        mixer = block.attention
        assert mixer is not None
        turned[name] = block.model_copy(update={"mixer": mixer.model_copy(update={"rotary": True})})
    assert architecture(model.model_copy(update={"blocks": turned})) is None


def test_norms_of_heads_without_weights_have_a_price() -> None:
    model = load_model("llama4-scout")
    bare = model.model_copy(update={"variants": ("scaled-queries",)})
    times = [float(estimate(PLAN, job(one), runtimes()["fsdp"].for_model(one)).step) for one in (model, bare)]
    assert times[0] > times[1]
    assert float(named("qk_norm", runtimes()["fsdp"]).saved) == 4 * 4096 * (5120 + 1024)
