"""What a user changes with ``--set`` is in the files, refused, or told in the run card."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.errors import UnsupportedPlan
from planner.launchers import Card, Target, launch_files, launchers
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.settings import ANY, CHOICES
from planner.runtimes.trait_values import is_allowed
from planner.runtimes.traits import TRAITS
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.unit import runner_jobs as jobs
from tests.validate.megatron import cases

JOB = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64)
ROUTED = cases.job("mixtral-8x7b", 16, seq_len=2048, global_batch=64)
SHARED = cases.job("moonlight-16b-a3b", 16, seq_len=2048, global_batch=64)
TUNED = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64, precision="fp8", method="lora")
ADAPTED = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64, method="lora")
LOW = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64, precision="fp8")
MICROSCALED = cases.job(
    "llama3-8b", 16, seq_len=2048, global_batch=64, hardware="dgx-b200", precision="mxfp8"
)
REDUCED = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64, state_dtype="bf16")
UNEQUAL = cases.job(
    "llama3-8b", 16, seq_len=2048, global_batch=64, seq_lens="lognormal:mean=512,max=2048,seed=1"
)
PLANS = {
    "megatron-lm": cases.plan(16, 64, tp=2.0, sequence_parallel=True),
    "megatron-bridge": cases.plan(16, 64, tp=2.0, sequence_parallel=True),
    "deepspeed": cases.plan(16, 64, zero=3),
    "fsdp": cases.plan(16, 64, zero=3),
    "nanotron": cases.plan(16, 64, zero=1),
    "torchtitan": cases.plan(16, 64, zero=3),
}
MEGATRON_FLAGS: dict[str, tuple[str, ...]] = {
    "attention=unfused": ("--attention-backend unfused",),
    "attention=flash-2": ("--attention-backend flash",),
    "context_by_length=True": (
        "--hybrid-context-parallel",
        "--dataloader-inter-document-masking",
        "--calculate-per-token-loss",
    ),
    "dispatcher=fused": ("--moe-token-dispatcher-type flex", "--moe-flex-dispatcher-backend deepep"),
    "dropout=True": ("--attention-dropout 0.1", "--hidden-dropout 0.1"),
    "fused_activation=False": ("--no-bias-swiglu-fusion",),
    "fused_rope=False": ("--no-rope-fusion",),
    "fused_weight_gradient=False": ("--no-gradient-accumulation-fusion",),
    "graphed=router": (
        "--cuda-graph-impl transformer_engine",
        "--cuda-graph-modules moe_router moe_preprocess",
    ),
    "graphed=attention": (
        "--cuda-graph-modules attn moe_router moe_preprocess",
        "export NCCL_GRAPH_REGISTER=0",
    ),
    "graphed=passes": ("--cuda-graph-impl full_iteration", "--no-check-for-nan-in-loss-and-grad"),
    "gradient_dtype=bf16": ("--grad-reduce-in-bf16",),
    "reduce_dtype=bf16": ("--grad-reduce-in-bf16",),
    "dp_exposed=1.0": (),
    "loss=vocab-parallel": (),
    "launch_blocking=True": ("export CUDA_LAUNCH_BLOCKING=1",),
    "low_bit_head=mxfp8": ("--fp8-output-proj",),
    "low_bit_weights=alone": ("--fp8-param-gather",),
    "precision_aware=True": ("--use-precision-aware-optimizer",),
    "operator_fuser=True": ("--use-transformer-engine-op-fuser",),
    "stages_inside=True": ("--use-tp-pp-dp-mapping",),
    "overlaps_experts=True": ("--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute"),
    "overlaps_shared_expert=True": ("--moe-shared-expert-overlap",),
    "static_experts=True": ("--moe-expert-capacity-factor 1.0", "--moe-pad-expert-input-to-capacity"),
    "tp_exposed=0.25": ("--tp-comm-overlap",),
}
"""The flags of Megatron-LM's own argument parser (training/arguments.py, transformer_config.py)."""


def written(name: str, version: str | None = None, job: Job = JOB, **traits: Any) -> dict[str, str]:
    """Return the files of a plan for a runtime with changed traits."""
    plain = runtimes()[name]
    runtime = plain.with_traits(**traits)
    wanted = Target(runtime, launchers()["torchrun"], version or runtime.versions[0])
    plan = replace(PLANS[name], ep=2.0) if job in (ROUTED, SHARED) else PLANS[name]
    return launch_files(plan, job, wanted, Card())


def job_for(trait: str, name: str, value: object = None) -> Job:
    """Return a job in which a trait matters, and may have the value."""
    if (trait, value) == ("graphed", "passes"):
        return JOB
    if trait in ("dispatcher", "overlaps_experts", "static_experts", "graphed"):
        return ROUTED
    if trait == "overlaps_shared_expert":
        return SHARED
    if trait == "context_by_length":
        return UNEQUAL
    if trait == "whole_masters" and name == "megatron-bridge":
        return REDUCED
    if trait == "low_bit_head":
        return MICROSCALED
    if trait == "adapter_dropout" and name in ("deepspeed", "fsdp"):
        return ADAPTED
    if trait == "low_bit_weights" or trait.startswith("adapter_"):
        return LOW if name == "megatron-lm" else TUNED
    return JOB


def with_partners(name: str, trait: str, value: object) -> dict[str, Any]:
    """Return a trait's value with those that the same switch brings."""
    switches = {"megatron-bridge": ("loss_kernel", "te"), "deepspeed": ("overlap_comm", "false")}
    setting, word = switches.get(name, ("loss_kernel", "te"))
    group = SETTINGS[setting].values[word]
    return {trait: value} | (dict(group) if name in switches and group.get(trait) == value else {})


def lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines()}


@every("change", MEGATRON_FLAGS)
def test_megatron_has_a_flag_for_each_setting(change: str) -> None:
    name, _, word = change.partition("=")
    value = {"True": True, "False": False}.get(word, word)
    job = job_for(name, "megatron-lm", value)
    value = float(word) if word.replace(".", "").isdigit() else value
    plain, said = (
        lines(written("megatron-lm", job=job)["train.sh"]),
        lines(written("megatron-lm", job=job, **{name: value})["train.sh"]),
    )
    assert set(MEGATRON_FLAGS[change]) <= said - plain
    if name == "dp_exposed":
        assert plain - said == {"--overlap-grad-reduce", "--overlap-param-gather"}
    if name == "loss":
        assert plain - said == {"--cross-entropy-loss-fusion", "--cross-entropy-fusion-impl native"}
    if "reduce" in change or "gradient_dtype" in change:
        assert "--accumulate-allreduce-grads-in-fp32" in plain - said


@every("name", ["megatron-lm", "megatron-bridge"])
def test_no_dispatcher_is_asked_for_where_no_token_leaves_its_rank(name: str) -> None:
    """Megatron-core's MoEFlexTokenDispatcher asserts that ep times etp is above 1 for DeepEP."""
    runtime = runtimes()[name]
    changed = runtime.with_traits(dispatcher="fused")
    target = Target(changed, launchers()["torchrun"], runtime.versions[0])
    files = launch_files(PLANS[name], ROUTED, target, Card())
    assert not any("deepep" in text or "flex" in text for name, text in files.items() if name != "README.md")


def test_every_setting_of_megatron_is_tried_here() -> None:
    tried = {tuple(change.split("=")) for change in MEGATRON_FLAGS}
    known = runtimes()["megatron-lm"].settings
    assert {(name, str(value)) for name, values in known.items() for value in values} == tried


@pytest.mark.parametrize("name", PLANS)
def test_every_setting_changes_the_files(name: str) -> None:
    elsewhere = ("float8_scales", "tp_exposed") if name == "torchtitan" else ()
    for trait, values in runtimes()[name].settings.items():
        if trait in elsewhere:
            continue  # of another precision and plan: tests/unit/test_torchtitan_choices.py
        for value in (12345678.0 if value == ANY else value for value in values):
            job = job_for(trait, name, value)
            plain = written(name, job=job)
            found = written(name, job=job, **with_partners(name, trait, value))
            changed = {file for file in plain if found[file] != plain[file]}
            assert changed - {"README.md"}, f"{trait}={value}"
            assert "The price assumes" not in found["README.md"]


def test_settings_are_values_that_the_trait_can_have_and_not_the_runtimes_own() -> None:
    for name, runtime in runtimes().items():
        for trait, values in runtime.settings.items():
            assert trait in TRAITS
            assert all(is_allowed(trait, value) for value in values if value != ANY), (name, trait)
            assert runtime.traits.value_of(trait) not in values, (name, trait)


@every("name", PLANS)
def test_a_choice_without_a_setting_is_refused_with_the_runtimes_own(name: str) -> None:
    own = runtimes()[name].traits.loss.vocab_parallel
    with pytest.raises(UnsupportedPlan) as refused:
        written(name, vocab_parallel_loss=not own)
    assert f"nearest: --set vocab_parallel_loss={str(own).lower()}" in str(refused.value)


@every("name", PLANS)
def test_what_is_known_of_a_runtime_is_told_in_the_card_alone(name: str) -> None:
    plain, found = written(name), written(name, framework_bytes=3e9, compute_derate=0.5)
    assert {file for file in plain if found[file] != plain[file]} == {"README.md"}
    assert "The price assumes compute_derate 0.5, which no setting" in found["README.md"]
    assert "The price assumes framework_bytes 3e+09, which no setting" in found["README.md"]


def test_choices_are_traits() -> None:
    assert set(TRAITS) >= CHOICES


def test_bridge_deepspeed_and_accelerate_have_fields() -> None:
    bridge = lines(
        written("megatron-bridge", attention="unfused", dp_exposed=1.0, tp_exposed=1.0)["train.py"]
    )
    assert {"attention_backend=AttnBackend.unfused,", "tp_comm_overlap=False,"} <= bridge
    assert {"overlap_grad_reduce=False,", "overlap_param_gather=False,"} <= bridge
    alone = {"dp_exposed": 1.0, "flat_buckets": 1.0, "reduce_dtype": "fp32"}
    config = json.loads(written("deepspeed", **alone)["ds_config.json"])
    assert config["zero_optimization"]["overlap_comm"] is False
    assert config["communication_data_type"] == "fp32"
    sizes = json.loads(written("deepspeed", live_elements=2e8, bucket_elements=1e8)["ds_config.json"])
    assert sizes["zero_optimization"]["stage3_max_live_parameters"] == 200_000_000
    assert sizes["zero_optimization"]["reduce_bucket_size"] == 100_000_000
    compiled = yaml.safe_load(written("fsdp", compiled=True)["accelerate.yaml"])
    assert compiled["dynamo_config"]["dynamo_backend"] == "INDUCTOR"
    assert "REDUCE_DTYPE = 'bfloat16'" in written("fsdp", reduce_dtype="bf16")["train.py"]


@every(("version", "file"), [(None, "train.sh"), ("0.2.2", "titan_plan.toml")])
def test_torchtitan_compiles_or_not(version: str | None, file: str) -> None:
    assert written("torchtitan", version)[file] != written("torchtitan", version, compiled=False)[file]
    off = written("torchtitan", version, compiled=False)[file]
    assert "--compile.no-enable" in off or "[compile]\nenable = false" in off


def test_gradients_in_bf16_do_not_go_with_fp16() -> None:
    runtime = runtimes()["megatron-lm"]
    task = cases.job("llama3-8b", 16, seq_len=2048, global_batch=64, precision="fp16")
    changed = runtime.with_traits(gradient_dtype="bf16")
    with pytest.raises(UnsupportedPlan, match="nearest: --set gradient_dtype=fp32"):
        launch_files(PLANS["megatron-lm"], task, Target(changed, launchers()["torchrun"], "0.20"), Card())


@every(
    ("name", "axes", "traits"),
    [
        ("deepspeed", {"cp": 2}, {"attention": "unfused"}),
        ("deepspeed", {"zero": 0}, {"gradient_dtype": "fp32"}),
        ("fsdp", {"cp": 2, "zero": 3}, {"attention": "flash-3"}),
    ],
)
def test_a_setting_that_a_plan_cannot_run_is_refused(
    name: str, axes: dict[str, Any], traits: dict[str, Any]
) -> None:
    runtime = runtimes()[name]
    task = jobs.job(jobs.DENSE, 16, seq_len=4096, global_batch=64)
    layout = jobs.plan(task, **({"zero": 1, "cp_method": runtime.cp_methods[0]} | axes))
    (fault,) = estimate(layout, task, runtime.with_traits(**traits)).violations
    assert fault.nearest in ("--set attention=flash-2", "zero 1")


@every("name", ["megatron-lm", "megatron-bridge"])
@every("trait", ["", "gradient_dtype", "reduce_dtype"])
def test_megatron_is_priced_with_the_one_dtype_of_gradients_that_it_is_started_with(
    name: str, trait: str
) -> None:
    """Of P weights 16 ranks send 15/16 · P in a reduce-scatter, and as many in 16 bit in the all-gather."""
    plain = runtimes()[name]
    runtime = plain.with_traits(**({trait: "bf16"} if trait else {}))
    work = JOB.workload if trait else JOB.workload.model_copy(update={"gradient_dtype": "bf16"})
    job, layout = replace(JOB, workload=work), cases.plan(16, 64, zero=1)
    for asked, whose, nbytes in ((JOB, plain, 4), (job, runtime, 2)):
        answer = estimate(layout, asked, whose)
        assert answer.sent.dp == pytest.approx(15 / 16 * JOB.model.params * (nbytes + 2))
        assert answer.stages[0].gradients == pytest.approx(JOB.model.params * nbytes)
    wanted = Target(runtime, launchers()["torchrun"], runtime.versions[0])
    files = launch_files(layout, job, wanted, Card())
    said = {"megatron-lm": "--grad-reduce-in-bf16", "megatron-bridge": "grad_reduce_in_fp32=False,"}[name]
    assert said in lines(files[{"megatron-lm": "train.sh", "megatron-bridge": "train.py"}[name]])


def test_gradients_travel_in_a_dtype_of_their_own_elsewhere() -> None:
    """DeepSpeed keeps them in fp32 and sends them in bf16."""
    plain = runtimes()["deepspeed"]
    job = replace(JOB, workload=JOB.workload.model_copy(update={"gradient_dtype": "fp32"}))
    case = case_of(cases.plan(16, 64, zero=1), job, plain)
    assert (case.gradient_bytes, case.reduce_bytes) == (4, 2)
