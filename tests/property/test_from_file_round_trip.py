"""What is written for a runner is read back as the same plan, for seeded plans of every target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path

import pytest

from planner.cli.estimate import read
from planner.cli.from_file import asked_of
from planner.cli.options import JobOptions, PlanOptions
from planner.errors import UnsupportedPlan
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.numerics import said
from planner.launchers import launchers
from planner.launchers.family import LauncherSettings
from planner.plan import Plan
from planner.question.formats import formats
from planner.question.job import MOST_TOKENS
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.imports.command_line import training_of
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.imports.zoo import same_parts
from planner.runtimes.megatron_lm.reading.megatron_model import model_record
from planner.runtimes.offered import stage_layers
from tests.deep import deep
from tests.validate.megatron.plans import broken, legal_plans
from tests.validate.random_plans import cases

CORE = ("megatron-lm", "megatron-bridge")
COUNT = deep(10, 25)
MEGATRON_COUNT = deep(20, 45)
SEED = 11

TARGETS = {
    "megatron-lm": ("megatron-lm", "0.20", "torchrun", "train.sh"),
    "megatron-lm under Slurm": ("megatron-lm", "0.16", "slurm", "train.sbatch"),
    "deepspeed": ("deepspeed", "0.19.8", "torchrun", "ds_config.json"),
    "deepspeed by its script": ("deepspeed", "0.19.8", "torchrun", "train.sh"),
    "torchtitan TOML": ("torchtitan", "0.2.2", "torchrun", "titan_plan.toml"),
    "torchtitan command line": ("torchtitan", "main-2026-08-21", "torchrun", "train.sh"),
    "accelerate": ("fsdp", "1.15.0", "torchrun", "accelerate.yaml"),
    "accelerate by its script": ("fsdp", "1.15.0", "torchrun", "train.sh"),
    "nanotron": ("nanotron", "0.5", "torchrun", "nanotron.yaml"),
    "nanotron by its script": ("nanotron", "0.5", "slurm", "train.sbatch"),
    "bridge": ("megatron-bridge", "0.7", "torchrun", "train.py"),
    "bridge by its script": ("megatron-bridge", "0.7", "slurm", "train.sbatch"),
}


@cache
def cluster() -> HardwareProfile:
    return load_hardware("dgx-h100")


def seeded(runtime: str) -> Iterator[tuple[Job, Plan]]:
    """Yield endless legal plans of a runtime on the cluster that the files are read for."""
    if runtime in CORE:
        plans = legal_plans(SEED, 10 * MEGATRON_COUNT, runtimes()[runtime])
        return (
            (job, on_host(job, plan, runtimes()[runtime]))
            for job, plan in plans
            if job.hardware.name == "dgx-h100"
        )
    found = cases(runtimes()[runtime], SEED, 10 * COUNT, legal=True)
    able = (case for case in found if case.job.workload.precision in formats(cluster()))
    small = (case for case in able if case.job.workload.tokens_per_step <= MOST_TOKENS)
    return ((Job(case.job.model, cluster(), case.job.gpus, case.job.workload), case.plan) for case in small)


def on_host(job: Job, plan: Plan, runtime: Runtime) -> Plan:
    """Return a plan with saved tensors of half its layers on the host, where that is legal."""
    other = replace(plan, offload=f"activations:{job.model.num_layers // 2}")
    free = plan.offload == "none" and plan.recompute == "none" and plan.pp == 1
    return other if free and not broken(job, other, runtime) else plan


def as_run(plan: Plan, job: Job, target: str) -> dict[str, object]:
    """Return what of a plan the runner sees: what cannot matter is left out, the runner's own cut put in."""
    seen = asdict(plan)
    piped = plan.pp * plan.vpp > 1
    own = runtimes()[target].own_split
    cut = own(job.model, int(plan.pp * plan.vpp)) if own and plan.stage_layers is None else None
    seen["stage_layers"] = (cut or stage_layers(plan, job.model)) if piped else None
    seen["recompute"] = "selective" if plan.recompute == "selective:core_attn" else plan.recompute
    if plan.zero_shards == 1 and target not in CORE:
        seen["zero"] = 0
    if seen["zero"] == 0:
        del seen["zero_shards"]
    if plan.cp == 1:
        del seen["cp_method"]
    if plan.pp == 1:
        del seen["schedule"]
    if plan.tp == 1:
        del seen["sequence_parallel"]
    if target in CORE and not job.model.expert_kinds:
        del seen["etp"]
    return seen


def written(folder: Path, job: Job, plan: Plan, target: tuple[str, str, str, str]) -> Path | None:
    """Write the launch files and return the one to read; None where the release has no such plan."""
    name, version, launcher, file = target
    command = runtimes()[name].command
    assert command is not None
    try:
        parts = command(plan, job, version)
    except UnsupportedPlan:
        return None
    files = launchers()[launcher].files(parts, job, LauncherSettings("title", "cite", "job"))
    folder.mkdir()
    for other, text in files.items():
        (folder / other).write_text(text, encoding="utf-8")
    return folder / file


FIXED = ("original_positions", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "truncate")
"""Numbers of scaled positions that Megatron-LM has in its code where no flag says them."""


def assert_same_numerics(path: Path, model: ModelSpec) -> None:
    """Compare what a script says of positions, norms, initialiser and router with the record of the model."""
    record = model_record(Sheet(str(path), training_of(path.read_text(), str(path)).flags))
    assert record is not None
    told, known = record["numerics"], said(model.numerics)
    scaling, kept = dict(told.get("rope_scaling", {})), dict(known.get("rope_scaling", {}))
    router, own = dict(told.get("router", {})), dict(known.get("router", {}))
    for name in FIXED:
        assert scaling.pop(name, None) in (None, kept.get(name)), (path, name)
        kept.pop(name, None)
    assert scaling == kept, path
    normalised = own.pop("normalize", None)
    if normalised is not None and own.get("score") == "softmax" and own.get("groups", 1) == 1:
        pre = "--moe-router-pre-softmax" in path.read_text()
        assert pre == (not normalised or model.expert_kinds[0].topk == 1), path
    own = {name: value for name, value in own.items() if value not in (False, 1) or name == "aux_loss"}
    assert {name: router.get(name) for name in own} == own, path
    plain = ("rope_theta", "rope_fraction", "norm_epsilon", "init_std")
    assert {name: told.get(name) for name in plain} == {name: known.get(name) for name in plain}, path
    unnamed = "gelu", "gelu_tanh"
    assert known.get("activation", "gelu") in (*unnamed, told.get("activation")), path


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_written_plan_is_read_back_the_same(target: tuple[str, str, str, str], tmp_path: Path) -> None:
    done = 0
    for number, (job, plan) in enumerate(seeded(target[0])):
        path = written(tmp_path / str(number), job, plan, target)
        if path is None:
            continue
        request = asked_of(path, JobOptions("", hardware=["dgx-h100"]), PlanOptions())
        whole, found, runtime, _, _ = request.read(read)
        assert as_run(found, whole, target[0]) == as_run(plan, job, target[0]), path
        assert (whole.gpus, runtime.name) == (job.gpus, target[0])
        assert same_parts(whole.model, job.model), f"{path}: {job.model.name}"
        assert whole.workload.model_dump() == job.workload.model_dump()
        assert request.origin is not None
        assert request.origin.found.unknown == ()
        assert [note for note in request.origin.found.notes if "but for its numerics" not in note] == []
        if target[0] == "megatron-lm":
            assert_same_numerics(path, job.model)
        done += 1
        if done == (MEGATRON_COUNT if target[0] == "megatron-lm" else COUNT):
            return
    pytest.fail(f"only {done} plans were written")
