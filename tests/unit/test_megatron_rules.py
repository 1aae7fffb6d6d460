"""What Megatron-core refuses, rule by rule; tests/validate/megatron puts such plans to its own code."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from planner.inputs.model import Attention, Block, DenseFfn, Experts, ModelSpec
from planner.plan import Plan
from planner.rules import Rule, structural_rules, violations
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm import ENTRY
from planner.runtimes.megatron_lm.architecture import architecture, obstacles
from tests.cases import every
from tests.validate.megatron import cases

INTERLEAVED = {"vpp": 2.0, "schedule": "interleaved-1f1b"}


def broken(plan: Plan, job: Job) -> set[str]:
    return {fault.rule for fault in violations(ENTRY.rules(plan, job))}


def llama(gpus: int = 64, **work: Any) -> Job:
    return cases.job("llama3-70b", gpus, **({"seq_len": 8192, "global_batch": 128} | work))


def mixtral(**work: Any) -> Job:
    return cases.job("mixtral-8x7b", 64, **({"seq_len": 4096, "global_batch": 128} | work))


LEGAL = {"tp": 8.0, "pp": 4.0, "sequence_parallel": True}


@every(
    ("fields", "work", "rule"),
    [
        ({"tp": 3.0}, {}, {"tp-divides-heads", "tp-fits-query-groups", "tp-divides-ffn", "sequence-divides"}),
        ({"sequence_parallel": True, "tp": 1.0}, {}, set()),
        ({}, {"seq_len": 8188}, {"sequence-divides"}),
        ({"cp": 2.0, "sequence_parallel": False}, {"seq_len": 8190}, {"sequence-divides"}),
        ({"cp": 2.0, "tp": 4.0, "cp_method": "all-to-all"}, {}, set()),
        ({"cp": 4.0, "tp": 4.0, "pp": 1.0, "cp_method": "all-to-all"}, {}, {"cp-divides-heads"}),
        ({"cp": 2.0, "tp": 4.0, "cp_method": "tree"}, {}, {"cp-method-offered"}),
        ({"cp_method": "tree"}, {}, set()),
        ({"vpp": 2.0}, {}, {"chunks-fit-schedule"}),
        ({"schedule": "interleaved-1f1b"}, {}, {"chunks-fit-schedule"}),
        ({"pp": 1.0, **INTERLEAVED}, {}, {"chunks-fit-schedule"}),
        ({"schedule": "zb-h1"}, {}, {"schedule-offered"}),
        ({"pp": 1.0, "schedule": "zb-h1"}, {}, set()),
        ({**INTERLEAVED, "num_microbatches": 3.0}, {}, {"rounds-fill-pipeline"}),
        ({**INTERLEAVED, "num_microbatches": 11.0}, {}, {"rounds-fill-pipeline"}),
        ({**INTERLEAVED, "num_microbatches": 10.0}, {}, set()),
        ({"stage_layers": (19, 21, 21, 19)}, {}, set()),
        ({"etp": 2.0}, {}, set()),
        ({"zero_shards": 1.0}, {}, set()),
        ({"zero_shards": 4.0}, {}, {"zero-shards-divide"}),
        ({"zero_shards": 4.0, "zero": 0}, {}, set()),
        ({"recompute": "selective:qkv"}, {}, {"recompute-module"}),
        ({"recompute": "selective:moe"}, {}, {"recompute-module"}),
        ({"recompute": "selective:norm"}, {"precision": "fp8-delayed"}, {"recompute-module"}),
        ({"recompute": "selective:norm"}, {"precision": "fp8"}, set()),
        ({"recompute": "half"}, {}, {"recompute-offered"}),
        ({"recompute": "full:0"}, {}, {"recompute-offered"}),
        ({**INTERLEAVED, "recompute": "full:3"}, {}, {"recompute-layers-in-chunks"}),
        ({**INTERLEAVED, "recompute": "full:4"}, {}, set()),
        ({"zero": 0, "offload": "optimizer"}, {}, {"states-need-distributed-optimizer"}),
        ({"zero": 3, "offload": "optimizer"}, {}, {"offload-needs-distributed-optimizer"}),
        ({"offload": "activations"}, {}, {"offload-offered"}),
        ({}, {"state_dtype": "fp8"}, set()),
        ({}, {"state_dtype": "fp8", "optimizer": "muon"}, {"states-need-adam"}),
        ({"zero": 2}, {"optimizer": "muon"}, {"fsdp-optimizer"}),
        ({}, {"optimizer": "adam8bit"}, {"optimizer-offered"}),
        ({}, {"master_dtype": "bf16"}, {"master-dtype-offered"}),
        ({}, {"precision": "mxfp8"}, {"precision-on-accelerator"}),
        ({}, {"precision": "int4"}, {"precision-offered"}),
        ({}, {"precision": "fp8", "seq_len": 8200}, {"low-bit-tokens"}),
        ({}, {"method": "lora"}, {"method-offered"}),
    ],
)
def test_a_plan_breaks_the_rules_that_it_breaks(
    fields: dict[str, Any], work: dict[str, Any], rule: set[str]
) -> None:
    plan = cases.plan(64, 128, **(LEGAL | fields))
    assert broken(plan, llama(**work)) == rule


@every(
    ("fields", "rule"),
    [
        ({"tp": 2.0, "ep": 8.0, "sequence_parallel": True}, set()),
        ({"tp": 2.0, "ep": 8.0}, {"experts-need-sequence-parallel"}),
        ({"tp": 2.0, "sequence_parallel": True, "etp": 3.0, "zero": 0}, {"etp-divides-experts"}),
        ({"zero_shards": 4.0, "ep": 8.0}, {"zero-shards-divide"}),
        ({"zero_shards": 32.0, "ep": 2.0}, set()),
        ({"zero_shards": 64.0, "ep": 3.0}, set()),
        ({"recompute": "selective:moe_act+moe"}, set()),
        ({"recompute": "selective:mlp"}, {"recompute-module"}),
    ],
)
def test_experts_have_rules_of_their_own(fields: dict[str, Any], rule: set[str]) -> None:
    assert broken(cases.plan(64, 128, **fields), mixtral()) == rule


def test_latent_attention_windows_and_sinks_limit_context_parallelism() -> None:
    ring, gather, swap = ({"cp": 2.0, "cp_method": name} for name in ("ring", "all-gather", "all-to-all"))
    deepseek = cases.job("deepseek-v3", 64, seq_len=4096, global_batch=128)
    oss = cases.job("gpt-oss-120b", 64, seq_len=4096, global_batch=128)
    assert broken(cases.plan(64, 128, **ring), deepseek) == set()
    assert broken(cases.plan(64, 128, **gather), deepseek) == {"cp-method-offered"}
    assert broken(cases.plan(64, 128, **ring), oss) == {"cp-method-offered"}
    assert broken(cases.plan(64, 128, **gather), oss) == {"cp-method-offered"}
    assert broken(cases.plan(64, 128, **swap), oss) == set()


def test_biased_experts_are_never_divided() -> None:
    oss = cases.job("gpt-oss-120b", 64, seq_len=4096, global_batch=128)
    assert broken(cases.plan(64, 128, tp=2.0, etp=2.0, sequence_parallel=True), oss) == {
        "biased-experts-whole"
    }


def test_the_answer_names_what_was_found_and_the_nearest_legal_value() -> None:
    faults = violations(ENTRY.rules(cases.plan(64, 128, tp=3.0), llama()))
    told = {fault.rule: (fault.found, fault.expected, fault.nearest) for fault in faults}
    assert told["tp-divides-heads"] == ("tp 3", "a divisor of the heads 64", "tp 2 or 4")
    assert told["tp-fits-query-groups"][2] == "tp 2 or 4"
    (fault,) = violations(ENTRY.rules(cases.plan(64, 128, **LEGAL), llama(seq_len=8188)))
    assert fault.nearest == "8184"


def test_a_batch_gets_the_verdicts_of_its_plans() -> None:
    tp = np.array([1.0, 2.0, 3.0, 8.0])[:, None, None]
    pp = np.array([1.0, 4.0, 5.0])[None, :, None]
    micro_batch = np.array([1.0, 2.0, 3.0])[None, None, :]
    dp = 960.0 / tp / pp
    batch = Plan(
        tp=tp, pp=pp, vpp=2.0, dp=dp, zero_shards=dp, micro_batch=micro_batch,
        num_microbatches=1920.0 / dp / micro_batch, zero=1, schedule="interleaved-1f1b",
        recompute="full:4", sequence_parallel=True,
    )  # fmt: skip
    job = cases.job("mixtral-8x7b", 960, seq_len=4096, global_batch=1920, precision="fp8")

    def verdicts(rules: list[Rule]) -> dict[str, np.ndarray]:
        return {rule.name: np.broadcast_to(np.asarray(rule.holds), batch.shape) for rule in rules}

    whole = verdicts(ENTRY.rules(batch, job))
    assert len(whole) == len(ENTRY.rules(batch, job)), "two rules share a name"
    seen = set()
    for index in np.ndindex(batch.shape):
        for rule in ENTRY.rules(batch.row(index), job):
            assert bool(rule.holds) == bool(whole[rule.name][index]), (rule.name, index)
            seen.add((rule.name, bool(rule.holds)))
    assert {
        ("tp-divides-heads", False),
        ("rounds-fill-pipeline", False),
        ("chunks-fit-schedule", False),
    } <= seen


BLOCK = Block(mixer=Attention(heads=8, kv_heads=8, head_dim=64), ffn=DenseFfn(inner=1024))


def of(*blocks: Block, **fields: Any) -> ModelSpec:
    named = {f"b{index}": block for index, block in enumerate(blocks)}
    return ModelSpec(
        **({"name": "m", "hidden": 512, "vocab": 1000, "tied_embeddings": False} | fields),
        blocks=named,
        layers=tuple(named),
    )


def changed(block: Block = BLOCK, ffn: dict[str, Any] | None = None, norms: int = 2, **mixer: Any) -> Block:
    return Block(
        mixer=block.mixer.model_copy(update=mixer), ffn=block.ffn.model_copy(update=ffn or {}), norms=norms
    )


EXPERTS = Block(mixer=BLOCK.mixer, ffn=Experts(experts=8, topk=2, inner=256))


@every(
    ("model", "reason"),
    [
        (of(BLOCK), None),
        (of(changed(window=128), BLOCK), None),
        (of(changed(rotary=False), BLOCK), None),
        (of(BLOCK, EXPERTS), None),
        (of(changed(qkv_bias=True)), None),
        (of(changed(ffn={"bias": True}, qkv_bias=True, output_bias=True)), None),
        (of(changed(norms=4)), "4 norms in a layer"),
        (of(BLOCK, final_norm=False), "no norm before the head"),
        (of(BLOCK, changed(heads=16)), "attention differs"),
        (of(changed(window=128), changed(window=256)), "windows of several sizes"),
        (of(changed(qk_norm="full")), "norms over all heads"),
        (of(BLOCK, learned_positions=True, max_positions=512), "rotary and learned"),
        (of(BLOCK, changed(ffn={"inner": 2048})), "several widths"),
        (of(BLOCK, changed(ffn={"gated": False})), "gated and plain"),
        (of(changed(output_bias=True)), "biases in some"),
        (of(changed(EXPERTS, {"bias": True}, qkv_bias=True, output_bias=True)), "unbiased router"),
    ],
)
def test_what_megatron_cannot_build_is_said_and_never_approximated(
    model: ModelSpec, reason: str | None
) -> None:
    found = obstacles(model, architecture(model))
    if reason is None:
        assert found == ()
    else:
        assert len(found) == 1
        assert reason in found[0]


def test_gemma_is_refused_for_its_four_norms() -> None:
    job = cases.job("gemma3-27b", 8, seq_len=4096, global_batch=64)
    fault, scale = violations(ENTRY.rules(cases.plan(8, 64), job))
    assert fault.rule == "model-expressible"
    assert "4 norms" in fault.found
    assert (scale.rule, scale.found) == ("numerics-have-flags", "numerics.attention_scale 0.0771517")


def test_the_published_layout_of_a_70b_model_is_legal() -> None:
    plan, job = cases.plan(64, 128, **(LEGAL | {"vpp": 5.0, "schedule": "interleaved-1f1b"})), llama()
    rules = [*structural_rules(plan, job.model, job.workload, job.gpus), *ENTRY.rules(plan, job)]
    assert violations(rules) == ()
    assert dataclasses.replace(plan).gpus == 64
