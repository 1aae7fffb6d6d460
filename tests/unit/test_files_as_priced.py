"""What is priced is what the files start: who sends tokens to experts, and which layers are trained."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.request import SearchRequest
from tests.cases import every
from tests.unit.cost_jobs import plan_of

RUNTIMES: Final = runtimes()

DISPATCHERS: Final = {
    r"--moe-token-dispatcher-type alltoall": "all-to-all",
    r"--moe-token-dispatcher-type flex": "fused",
    r"moe_token_dispatcher_type=.alltoall.": "all-to-all",
    r"moe_token_dispatcher_type=.flex.": "fused",
    r'comm_backend="standard"': "all-to-all",
    r"\"autoep_size\"": "all-to-all",
    # torchtitan 0.2, config/job_config.py: expert_parallel_comm_backend is "standard" unless it is said.
    r"expert_parallel_degree = \d+\n(?![^[]*comm_backend)": "all-to-all",
}
"""Words of a file to the dispatcher that they choose. DeepSpeed's AutoEP takes NCCL unless a variable says
DeepEP (``module_inject/auto_ep_comm.py``).
"""


def job_for(model: str) -> Job:
    return Job(load_model(model), load_hardware("dgx-b200"), 64, Workload(seq_len=4096, global_batch=256))


def written(name: str, version: str, plan: Plan, job: Job, changes: dict[str, Any]) -> str:
    """Return the command line and all files of a plan as one text."""
    runtime = RUNTIMES[name]
    assert runtime.command is not None
    command = runtime.command(plan, job, version, changes)
    return "\n".join([" ".join(command.program), *(command.files or {}).values()])


def with_experts(name: str, ep: int = 8) -> tuple[Plan, Job]:
    job = job_for("qwen3-30b-a3b")
    plan = plan_of(job, ep=ep, zero=RUNTIMES[name].default_zero, zero_shards=64)
    return replace(plan, cp_method=RUNTIMES[name].cp_methods[0]), job


EXPERT_PARALLEL: Final = [
    name
    for name, runtime in RUNTIMES.items()
    if runtime.command is not None and not violations(runtime.rules(*with_experts(name)))
]


def test_runtimes_with_expert_parallelism_are_these() -> None:
    assert sorted(EXPERT_PARALLEL) == ["deepspeed", "megatron-bridge", "megatron-lm", "torchtitan"]


CASES: Final = [
    (name, version, dispatcher)
    for name in EXPERT_PARALLEL
    for version in RUNTIMES[name].versions
    for dispatcher in (None, *RUNTIMES[name].settings.get("dispatcher", ()))
]


@every(("name", "version", "asked"), CASES)
def test_the_dispatcher_that_is_priced_is_the_one_that_starts(
    name: str, version: str, asked: str | None
) -> None:
    plan, job = with_experts(name)
    text = written(name, version, plan, job, {} if asked is None else {"dispatcher": asked})
    told = {kind for pattern, kind in DISPATCHERS.items() if re.search(pattern, text)}
    assert told == {asked or RUNTIMES[name].traits.experts.dispatcher}


@every("name", RUNTIMES)
def test_extra_prediction_layers_are_priced_where_the_files_train_them(name: str) -> None:
    """Megatron-core trains DeepSeek-V3's; torchtitan's and transformers' code has none by default."""
    runtime, asked = RUNTIMES[name], job_for("deepseek-v3")
    (job, _), *_ = SearchRequest(asked.model, (asked.hardware,), (64,), asked.workload, (runtime,)).jobs()
    assert asked.model.prediction is not None
    trains = name in ("megatron-lm", "megatron-bridge")
    assert (job.model.prediction is not None) is trains
    plan = plan_of(job, zero=runtime.default_zero, zero_shards=64)
    plan = replace(plan, cp_method=runtime.cp_methods[0])
    if runtime.command is None or violations(runtime.rules(plan, job)):
        assert name == "nanotron"
        return
    versions = [
        version for version in runtime.versions if version != "0.2.0"
    ]  # which has no groups of experts
    texts = [written(name, version, plan, job, {}) for version in versions]
    assert all(bool(re.search(r"mtp.num.layers", text)) is trains for text in texts)
    without = replace(job, model=asked.model.model_copy(update={"prediction": None}))
    more = estimate(plan, job, runtime).step - estimate(plan, without, runtime).step
    assert (more > 0) is trains


@every("runtime", ["fsdp", "deepspeed", "nanotron"])
@every("name", ["deepseek-v3", "glm-4.5-air", "qwen3.5-27b"])
def test_a_prediction_layer_that_is_not_trained_changes_no_trait(name: str, runtime: str) -> None:
    """The checkpoint's class is that of the model without it, and its code is what runs."""
    model, entry = load_model(name), runtimes()[runtime]
    assert model.prediction is not None
    bare = model.model_copy(update={"prediction": None})
    assert entry.for_model(model).traits == entry.for_model(bare).traits
