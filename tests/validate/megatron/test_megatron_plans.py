"""Megatron-LM's own code takes every legal plan as it is meant, and refuses what our rules refuse.

Needs a checkout of Megatron-LM in ``MEGATRON_LM`` and PyTorch; ``VALIDATE_PLANS`` says how many plans of each
kind (20 where unset).
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from planner.launchers import launchers
from planner.launchers._family import Settings
from planner.plan import Plan
from planner.runtimes._family import Job
from planner.runtimes.megatron_lm import ENTRY
from tests.validate.megatron import expected
from tests.validate.megatron.capture import make_recorder, started
from tests.validate.megatron.plans import illegal_plans, legal_plans

CHECKOUT = os.environ.get("MEGATRON_LM", "")
COUNT = int(os.environ.get("VALIDATE_PLANS", "20"))
SEED = int(os.environ.get("VALIDATE_SEED", "1"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not CHECKOUT, reason="MEGATRON_LM names no checkout of Megatron-LM"),
]

FIRST_STEP = {
    "sequence-divides": "the first scatter asserts it; arguments are checked for 2 · cp alone",
    "experts-need-sequence-parallel": "moe_layer.py raises in the first forward",
    "tp-divides-ffn": "the layers divide it when they are built",
    "etp-divides-experts": "the layers divide it when they are built",
    "tp-divides-shared-expert": "the layers divide it when they are built",
    "cp-method-offered": "Transformer Engine asserts it in the first attention",
    "cp-divides-heads": "Transformer Engine asserts it in the first attention",
    "low-bit-tokens": "Transformer Engine asserts it in the first product",
    "low-bit-widths": "Transformer Engine asserts it in the first product",
    "precision-on-accelerator": "Transformer Engine asserts it when the first layer starts",
    "states-need-distributed-optimizer": "optimizer/__init__.py raises when the optimizer is made",
}
"""Rules that Megatron-LM keeps too, but after its arguments are checked."""

CHANGED = {
    "sequence-parallel-needs-tp": "switched off in silence",
    "recompute-module": "a module that the model lacks is passed over in silence",
    "recompute-layers-in-chunks": "the plan counts layers of a stage, the flag those of a chunk",
    "zero-shards-divide": "a fraction of shards cannot be said in the flag",
    "stages-have-layers": "a stage without layers is built, and idles",
    "offload-needs-distributed-optimizer": "never tried by its authors with Megatron-FSDP",
}
"""Plans that Megatron-LM would run otherwise than the plan says, or that its flags cannot say."""


@pytest.fixture(scope="module")
def megatron() -> Any:
    from tests.validate.megatron.runner import Megatron

    return Megatron(CHECKOUT)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_recorder(tmp_path_factory.mktemp("recorder"))


def script(folder: Path, job: Job, plan: Plan, launcher: str = "torchrun") -> Path:
    assert ENTRY.command is not None
    command = ENTRY.command(plan, job, ENTRY.versions[0])
    files = launchers()[launcher].files(command, plan, job, Settings("Megatron-LM", "job"))
    path = folder / next(iter(files))
    path.write_text(files[path.name])
    return path


def wanted(job: Job, plan: Plan) -> dict[str, object]:
    model = job.model
    moe = any(block.ffn.kind == "moe" for block in model.blocks.values())
    return {
        "world": job.gpus,
        **{
            name: int(getattr(plan, name))
            for name in ("tp", "pp", "vpp", "cp", "dp", "micro_batch", "num_microbatches")
        },
        "ep": int(plan.ep),
        "etp": int(plan.etp) if moe else int(plan.tp),
        "expert_dp": int(plan.expert_dp) if moe else int(plan.dp * plan.cp),
        "zero_shards": int(plan.zero_shards) if plan.zero else int(plan.dp * plan.cp),
        "distributed_optimizer": plan.zero >= 1,
        "sharding": {2: "optim_grads", 3: "optim_grads_params"}.get(plan.zero, ""),
        "sequence_parallel": plan.sequence_parallel,
        "seq_len": job.workload.seq_len,
        "recompute": None if plan.recompute == "none" else plan.recompute.partition(":")[0],
        "layers": expected.layers_per_rank(plan, model),
        "params": expected.rank_params(plan, model, local=True),
    }


def differences(job: Job, plan: Plan, verdict: Any) -> dict[str, tuple[object, object]]:
    """Return what the runner derived otherwise than the plan says: (plan, runner)."""
    found = verdict.derived
    return {
        name: (value, found.get(name))
        for name, value in wanted(job, plan).items()
        if found.get(name) != value
    }


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_every_legal_plan_is_accepted_as_meant(megatron: Any, recorder: Path, launcher: str) -> None:
    faults = []
    for job, plan in legal_plans(SEED, COUNT, ENTRY):
        capability = job.hardware.pool.accelerator.compute_capability
        verdict = megatron.judge(
            started(script(recorder, job, plan, launcher), recorder), job.gpus, capability
        )
        differs = differences(job, plan, verdict)
        if verdict.error or differs:
            faults.append(f"{job.model.name} {job.gpus} {plan}: {verdict.error or differs}")
    assert not faults, f"{len(faults)} of {COUNT}:\n" + "\n".join(faults)


def test_what_our_rules_refuse_megatron_refuses_or_runs_otherwise(
    megatron: Any, recorder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verdicts = {kind: Counter[str]() for kind in ("refused", "other plan", "accepted")}
    examples = {}
    for job, plan, rule in illegal_plans(SEED, COUNT, ENTRY):
        capability = job.hardware.pool.accelerator.compute_capability
        try:
            start = started(script(recorder, job, plan), recorder)
        except (KeyError, ValueError, RuntimeError, IndexError):
            verdicts["refused"][rule] += 1
            continue
        verdict = megatron.judge(start, job.gpus, capability)
        kind = "refused" if verdict.error else "other plan" if differences(job, plan, verdict) else "accepted"
        verdicts[kind][rule] += 1
        if kind == "accepted":
            examples[rule] = f"{job.model.name} {job.gpus} {plan}"
    with capsys.disabled():
        print("".join(f"\n{kind}: {dict(counts)}" for kind, counts in verdicts.items()))  # noqa: T201
    unknown = set(examples) - set(FIRST_STEP) - set(CHANGED)
    assert not unknown, "\n".join(f"{rule}: {examples[rule]}" for rule in unknown)
