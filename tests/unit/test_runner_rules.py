"""The rules of fsdp, torchtitan, DeepSpeed and nanotron bite where the runner does, alone and in a batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from planner.api import load_model
from planner.cost.case import case_of
from planner.cost.step.layout import split_of
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import structural_rules, violations
from planner.runtimes.deepspeed import ENTRY as DEEPSPEED
from planner.runtimes.family import Runtime
from planner.runtimes.fsdp import ENTRY as FSDP
from planner.runtimes.nanotron import ENTRY as NANOTRON
from planner.runtimes.nanotron.rules import own_split
from planner.runtimes.offered import stage_layers
from planner.runtimes.torchtitan import ENTRY as TORCHTITAN
from tests.cases import every
from tests.unit import runner_jobs as jobs

FOUR = (FSDP, TORCHTITAN, DEEPSPEED, NANOTRON)
BFLOAT16 = {"master_dtype": "bf16", "gradient_dtype": "bf16"}
WORK = ("precision", "method", "optimizer", "seq_len", "state_dtype", "master_dtype", "gradient_dtype")
PIPE = {"pp": 4, "schedule": "interleaved-1f1b", "vpp": 2}


def broken(runtime: Runtime, model: ModelSpec, gpus: int, **axes: Any) -> set[str]:
    """Return the names of the rules that a plan breaks."""
    work = {name: axes.pop(name) for name in WORK if name in axes}
    task = jobs.job(model, gpus, **work)
    return {violation.rule for violation in violations(runtime.rules(jobs.plan(task, **axes), task))}


LEGAL = [
    (FSDP, jobs.DENSE, {"zero": 3}),
    (FSDP, jobs.DENSE, {"zero": 2, "tp": 8, "zero_shards": 8}),
    (FSDP, jobs.DENSE, {"cp": 4, "cp_method": "ring", "recompute": "full"}),
    (FSDP, jobs.MOE, {"tp": 2, "etp": 2}),
    (FSDP, jobs.TIED, {"zero": 0}),
    (FSDP, jobs.DENSE, BFLOAT16 | {"state_dtype": "bf16", "zero": 2}),
    (FSDP, jobs.DENSE, BFLOAT16 | {"optimizer": "adam8bit"}),
    (FSDP, jobs.DENSE, {"optimizer": "adam8bit", "method": "lora"}),
    (FSDP, jobs.DENSE, {"optimizer": "sgd", "zero": 0}),
    (FSDP, jobs.DENSE, {"precision": "fp16", "method": "qlora", "zero": 0}),
    (TORCHTITAN, jobs.DENSE, PIPE | {"tp": 4}),
    (TORCHTITAN, jobs.DENSE, {"pp": 4, "stage_layers": (7, 9, 9, 7)}),
    (TORCHTITAN, jobs.LATENT, {"ep": 16, "tp": 4}),
    (TORCHTITAN, jobs.MOE, {"tp": 2, "etp": 2}),
    (TORCHTITAN, jobs.DENSE, {"cp": 2, "cp_method": "all-gather", "zero": 2}),
    (TORCHTITAN, jobs.DENSE, {"pp": 2, "vpp": 2, "schedule": "zb-v"}),
    (DEEPSPEED, jobs.DENSE, {"zero": 3, "offload": "optimizer"}),
    (DEEPSPEED, jobs.DENSE, {"zero": 1, "pp": 8, "recompute": "full"}),
    (DEEPSPEED, jobs.DENSE, {"zero": 3, "cp": 32, "cp_method": "all-to-all"}),
    (DEEPSPEED, jobs.MOE, {"zero": 2, "tp": 2, "ep": 8}),
    (NANOTRON, jobs.DENSE, {"zero": 1, "tp": 8, "sequence_parallel": True}),
    (NANOTRON, jobs.DENSE, {"zero": 0, "pp": 4, "stage_layers": (9, 9, 8, 6)}),
    (NANOTRON, jobs.BIASED, {"zero": 1, "tp": 4}),
]


@every(("runtime", "model", "axes"), LEGAL)
def test_a_legal_plan_breaks_nothing(runtime: Runtime, model: ModelSpec, axes: dict[str, Any]) -> None:
    assert broken(runtime, model, 64, **axes) == set()


ILLEGAL = [
    (FSDP, jobs.DENSE, {"pp": 2}, "no-pipeline"),
    (FSDP, jobs.DENSE, {"zero": 1}, "zero-offered"),
    (FSDP, jobs.DENSE, {"tp": 16}, "kv-heads-divide"),
    (FSDP, jobs.DENSE, {"tp": 2, "sequence_parallel": True}, "no-sequence-parallel"),
    (FSDP, jobs.DENSE, {"zero": 0, "tp": 2}, "ddp-alone"),
    (FSDP, jobs.DENSE, {"zero_shards": 1}, "fsdp-has-shards"),
    (FSDP, jobs.DENSE, {"zero_shards": 48}, "zero-shards-on-mesh"),
    (FSDP, jobs.DENSE, {"cp": 2, "zero_shards": 2}, "replicas-of-shards"),
    (FSDP, jobs.MOE, {"ep": 8}, "no-expert-parallel"),
    (FSDP, jobs.MOE, {"tp": 2}, "experts-follow-tp"),
    (FSDP, jobs.LATENT, {"tp": 2, "etp": 2}, "attention-splits"),
    (FSDP, jobs.WINDOWED, {"tp": 2}, "layer-without-tp"),
    (FSDP, jobs.WINDOWED, {"cp": 2}, "context-is-causal"),
    (FSDP, jobs.DENSE, {"cp": 4, "seq_len": 8196}, "sequence-divides"),
    (FSDP, jobs.DENSE, {"cp": 2, "cp_method": "all-to-all"}, "cp-method-offered"),
    (FSDP, jobs.DENSE, {"precision": "fp8"}, "precision-offered"),
    (
        FSDP,
        jobs.DENSE,
        BFLOAT16 | {"state_dtype": "bf16", "precision": "fp16"},
        "bf16-weights-compute-in-bf16",
    ),
    (FSDP, jobs.DENSE, {"optimizer": "lion"}, "optimizer-offered"),
    (FSDP, jobs.DENSE, {"master_dtype": "bf16"}, "one-training-dtype"),
    (FSDP, jobs.DENSE, BFLOAT16 | {"state_dtype": "bf16", "method": "lora"}, "adapters-in-fp32"),
    (FSDP, jobs.DENSE, {"optimizer": "adam8bit", "state_dtype": "fp32"}, "quantised-states-have-no-dtype"),
    (FSDP, jobs.DENSE, {"method": "qlora", "cp": 2}, "quantised-base-is-unsplit"),
    (TORCHTITAN, jobs.DENSE, {"tp": 16}, "kv-heads-divide"),
    (TORCHTITAN, jobs.TIED, {"pp": 2}, "pipeline-ties"),
    (TORCHTITAN, jobs.DENSE, {"pp": 4, "vpp": 2}, "schedule-chunks"),
    (TORCHTITAN, jobs.DENSE, {"pp": 4, "schedule": "interleaved-1f1b"}, "schedule-chunks"),
    (TORCHTITAN, jobs.DENSE, {"pp": 32, "micro_batch": 16}, "schedule-micro-batches"),
    (TORCHTITAN, jobs.DENSE, PIPE | {"micro_batch": 32, "num_microbatches": 9.0}, "schedule-micro-batches"),
    (TORCHTITAN, jobs.DENSE, {"pp": 4, "schedule": "zb-h1"}, "schedule-offered"),
    (TORCHTITAN, jobs.DENSE, {"cp": 2, "cp_method": "all-to-all"}, "cp-method-offered"),
    (TORCHTITAN, jobs.DENSE, {"zero": 0, "cp": 2, "cp_method": "all-gather"}, "replicas-without-context"),
    (TORCHTITAN, jobs.MOE, {"ep": 8, "zero_shards": 4}, "expert-parallel-in-shards"),
    (TORCHTITAN, jobs.MOE, {"ep": 8, "tp": 2, "etp": 2}, "expert-tensor-degree"),
    (TORCHTITAN, jobs.GPT2, {}, "model-in-torchtitan"),
    (TORCHTITAN, jobs.DENSE, {"tp": 8, "sequence_parallel": True, "seq_len": 1020}, "sequence-divides"),
    (DEEPSPEED, jobs.DENSE, {"pp": 2, "zero": 2}, "pipeline-needs-zero-0-1"),
    (DEEPSPEED, jobs.DENSE, {"pp": 2, "zero": 1, "tp": 2}, "pipeline-without-tp"),
    (DEEPSPEED, jobs.DENSE, {"zero": 0, "offload": "optimizer"}, "offload-needs-zero"),
    (DEEPSPEED, jobs.DENSE, {"zero_shards": 8}, "zero-shards-whole"),
    (DEEPSPEED, jobs.DENSE, {"tp": 2, "cp": 2, "cp_method": "all-to-all"}, "autotp-without-ulysses"),
    (DEEPSPEED, jobs.BIASED, {"cp": 8, "cp_method": "all-to-all"}, "ulysses-heads"),
    (DEEPSPEED, jobs.MOE, {"ep": 8, "cp": 2, "cp_method": "all-to-all"}, "autoep-without-ulysses"),
    (DEEPSPEED, jobs.MOE, {"tp": 2}, "autotp-needs-autoep"),
    (DEEPSPEED, jobs.LATENT, {"tp": 2, "ep": 2}, "autotp-has-plan"),
    (DEEPSPEED, jobs.TIED, {"pp": 2, "zero": 1}, "pipeline-ties"),
    (NANOTRON, jobs.DENSE, {"zero": 1, "pp": 4, "stage_layers": (8, 8, 8, 8)}, "split-is-own"),
    (NANOTRON, jobs.DENSE, {"zero": 1, "pp": 16}, "split-is-own"),
    (NANOTRON, jobs.DENSE, {"zero": 1, "cp": 2, "cp_method": "all-gather"}, "no-context-parallel"),
    (NANOTRON, jobs.MOE, {"zero": 1, "ep": 2}, "no-expert-parallel"),
    (NANOTRON, jobs.WIDE_HEADS, {"zero": 1}, "model-in-nanotron"),
    (NANOTRON, jobs.DENSE, {"zero": 1, "recompute": "selective"}, "recompute-offered"),
]


@every(("runtime", "model", "axes", "rule"), ILLEGAL)
def test_an_illegal_plan_breaks_its_rule(
    runtime: Runtime, model: ModelSpec, axes: dict[str, Any], rule: str
) -> None:
    assert rule in broken(runtime, model, 64, **axes)


@every(("runtime", "model", "axes", "rule"), ILLEGAL)
def test_a_broken_rule_says_what_was_found_expected_and_nearest(
    runtime: Runtime, model: ModelSpec, axes: dict[str, Any], rule: str
) -> None:
    work = {name: axes[name] for name in WORK if name in axes}
    task = jobs.job(model, 64, **work)
    layout = jobs.plan(task, **{name: value for name, value in axes.items() if name not in work})
    told = next(v for v in violations(runtime.rules(layout, task)) if v.rule == rule)
    assert told.found
    assert told.expected
    assert told.nearest


@every("runtime", FOUR, ids=lambda runtime: runtime.name)
@every("model", [jobs.DENSE, jobs.MOE, jobs.LATENT], ids=lambda model: model.name)
def test_a_batch_says_the_same_as_its_plans_one_by_one(runtime: Runtime, model: ModelSpec) -> None:
    task = jobs.job(model, 64)
    tp = np.array([1.0, 2, 4, 16]).reshape(-1, 1, 1, 1)
    pp = np.array([1.0, 2, 4]).reshape(1, -1, 1, 1)
    cp = np.array([1.0, 2]).reshape(1, 1, -1, 1)
    ep = np.array([1.0, 4]).reshape(1, 1, 1, -1)
    dp = 64 / (tp * pp * cp)
    batch = Plan(
        tp=tp, pp=pp, cp=cp, ep=ep, dp=dp, zero_shards=dp * cp, num_microbatches=512 / dp,
        zero=runtime.default_zero, cp_method=runtime.cp_methods[0],
    )  # fmt: skip
    held = {rule.name: np.broadcast_to(rule.holds, batch.shape) for rule in runtime.rules(batch, task)}
    for index in np.ndindex(batch.shape):
        alone = {rule.name: bool(rule.holds) for rule in runtime.rules(batch.row(index), task)}
        assert alone == {name: bool(mask[index]) for name, mask in held.items()}


def test_nanotron_closes_a_stage_once_it_has_passed_its_share() -> None:
    # A layer costs 4·4096² + 3·14336·4096 = 243,269,632 and the head 128,256·4096 = 525,336,576, together
    # 8,309,964,800: the marks are 2,077, 4,155 and 6,232 million, first passed by layers 9, 18 and 26.
    assert own_split(jobs.DENSE, 4) == (9, 9, 8, 6)
    assert own_split(jobs.DENSE, 1) == (32,)
    assert own_split(jobs.DENSE, 16)[-1] == 0


def test_a_plan_without_a_split_is_priced_and_searched_with_nanotrons_own() -> None:
    task = jobs.job(jobs.DENSE, 64)
    layout = jobs.plan(task, zero=1, pp=4)
    assert "split-is-own" not in broken(NANOTRON, jobs.DENSE, 64, zero=1, pp=4)
    assert split_of(layout, case_of(layout, task, NANOTRON)) == (9, 9, 8, 6)


def test_the_nearest_split_is_the_one_that_a_plan_without_has() -> None:
    """32 layers in twelve chunks: the eight longer ones away from the embedding and the head."""
    task = jobs.job(jobs.DENSE, 4)
    plan = jobs.plan(task, pp=4, vpp=3, stage_layers=(8, 8, 8, 8))
    (told,) = violations(structural_rules(plan, task.model, task.workload, task.gpus))
    assert told.rule == "split-has-all-stages"
    assert told.nearest == "2-2-3-3-3-3-3-3-3-3-2-2"
    assert stage_layers(replace(plan, stage_layers=None), jobs.DENSE) == (2, 2, *[3] * 8, 2, 2)


@every(
    ("gpus", "axes", "legal"),
    [
        (128, {}, True),
        (192, {}, False),
        (256, {}, True),
        (192, {"ep": 2}, False),
        (192, {"ep": 64}, False),
        (256, {"ep": 64}, True),
        (192, {"zero_shards": 64}, True),
        (192, {"zero_shards": 96}, False),
        (192, {"zero": 0}, True),
        (192, {"pp": 2}, True),
        (320, {"ep": 16}, False),
        (384, {"pp": 2}, False),
        (384, {"tp": 4, "etp": 4}, False),
        (384, {"tp": 4, "ep": 8}, False),
        (512, {"tp": 4, "ep": 8}, True),
        (1024, {}, False),
    ],
)
def test_torchtitan_cuts_experts_evenly_where_more_ranks_share_them_than_there_are(
    gpus: int, axes: dict[str, Any], legal: bool
) -> None:
    """128 experts of 768 by 2048: beyond 128 ranks FSDP2 cuts dimension 1, of 768 (over etp) and 2048 rows.

    Each case is worked by hand: 192 shards leave a rest of 2048, 96 of 2048, 3 of 2048, 20 of 768, 512 of
    1024 shards leave a rest of 768.
    """
    task = jobs.job(load_model("qwen3-30b-a3b"), gpus, global_batch=1920 * 8)
    found = {one.rule for one in violations(TORCHTITAN.rules(jobs.plan(task, **axes), task))}
    assert ("expert-shards-even" not in found) == legal
