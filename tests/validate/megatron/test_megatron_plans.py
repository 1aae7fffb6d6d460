"""Megatron-LM's own code takes every legal plan as it is meant, and refuses what our rules refuse.

Needs PyTorch and in ``MEGATRON_LM`` a checkout of Megatron-LM, of the release ``VALIDATE_VERSION`` (the
newest where unset); ``VALIDATE_PLANS`` says how many plans of each kind (20 where unset).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from planner.inputs.mixers.indexer import Indexer
from planner.launchers import launchers
from planner.launchers.family import LauncherSettings
from planner.plan import Plan
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm import ENTRY
from planner.runtimes.megatron_lm.flags import padded_vocab
from planner.runtimes.settings import NO_CHANGES, Changes
from tests.validate.megatron import cases
from tests.validate.megatron.capture import make_recorder, started
from tests.validate.megatron.plans import broken, legal_plans, settings
from tests.validate.megatron.runner import ROCM, Megatron, Verdict
from tests.validate.megatron.tally import differences, settable, tally

CHECKOUT = os.environ.get("MEGATRON_LM", "")
COUNT = int(os.environ.get("VALIDATE_PLANS", "20"))
VERSION = os.environ.get("VALIDATE_VERSION", ENTRY.versions[0])
SEED = int(os.environ.get("VALIDATE_SEED", "1"))

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(not CHECKOUT, reason="MEGATRON_LM names no checkout of Megatron-LM"),
    pytest.mark.skipif(
        bool(os.environ.get("MEGATRON_BRIDGE")), reason="stand-ins for Megatron-Bridge would be in the way"
    ),
]


@pytest.fixture(scope="module")
def megatron() -> Any:
    return Megatron(CHECKOUT)


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_recorder(tmp_path_factory.mktemp("recorder"))


def script(
    folder: Path, job: Job, plan: Plan, launcher: str = "torchrun", changes: Changes = NO_CHANGES
) -> Path:
    assert ENTRY.command is not None
    command = ENTRY.command(plan, job, VERSION, changes)
    files = launchers()[launcher].files(command, job, LauncherSettings("Megatron-LM", "title", "job"))
    path = folder / next(iter(files))
    path.write_text(files[path.name])
    return path


@pytest.mark.parametrize("launcher", ["torchrun", "slurm"])
def test_every_legal_plan_is_accepted_as_meant(megatron: Any, recorder: Path, launcher: str) -> None:
    faults = []
    for (job, plan), asked in zip(legal_plans(SEED, COUNT, ENTRY), settings(ENTRY), strict=False):
        changes = settable(job, plan, asked, ENTRY)
        capability = job.hardware.pool.accelerator.compute_capability or ROCM
        verdict = megatron.judge(
            started(script(recorder, job, plan, launcher, changes), recorder), job.gpus, capability
        )
        differs = differences(job, plan, verdict, changes=changes)
        if verdict.error or differs:
            faults.append(f"{job.model.name} {job.gpus} {plan} {changes}: {verdict.error or differs}")
    assert not faults, f"{len(faults)} of {COUNT}:\n" + "\n".join(faults)


@pytest.mark.parametrize("split", [(3, *[2] * 29, 0, 0), (0, *[2] * 30, 1), (5, 0, *[2] * 28, 0, 0)])
def test_prediction_layers_and_empty_chunks_are_built_as_meant(
    megatron: Any, recorder: Path, split: tuple[int, ...]
) -> None:
    job = cases.job("deepseek-v3", 256, seq_len=4096, global_batch=512)
    degrees = {"tp": 2.0, "pp": 16.0, "vpp": 2.0, "ep": 8.0, "micro_batch": 1.0}
    known = cases.plan(
        256, 512, **degrees, schedule="interleaved-1f1b", sequence_parallel=True, stage_layers=split
    )
    assert not broken(job, known, ENTRY)
    verdict = megatron.judge(started(script(recorder, job, known), recorder), job.gpus, 9.0)
    assert (verdict.error, differences(job, known, verdict)) == ("", {})


@pytest.mark.parametrize("pp", [1.0, 2.0])
def test_a_repeated_prediction_layer_is_read_as_meant(megatron: Any, recorder: Path, pp: float) -> None:
    """One of a hybrid's, which runs twice, by its arguments: its latent space asks for Transformer Engine."""
    job = cases.job("nemotron-3-super-120b-a12b", 64, seq_len=4096, global_batch=64)
    known = cases.plan(64, 64, pp=pp, ep=16.0, micro_batch=1.0)
    assert not broken(job, known, ENTRY)
    verdict = megatron.judge(started(script(recorder, job, known), recorder), job.gpus, 9.0, build=False)
    assert verdict.error == ""
    assert {name: verdict.derived[name] for name in ("pp", "ep", "num_microbatches")} == {
        "pp": pp, "ep": 16, "num_microbatches": pp
    }  # fmt: skip


def test_an_indexer_is_read_as_meant(megatron: Any, recorder: Path) -> None:
    """Flags of DeepSeek-V3.2's attention alone: its kernels are not on a machine that builds no model."""
    dense = cases.model("deepseek-v3")
    indexer = Indexer(heads=64, head_dim=128, topk=2048)
    blocks = {
        name: block.model_copy(update={"mixer": block.attention.model_copy(update={"indexer": indexer})})
        for name, block in dense.blocks.items()
        if block.attention
    }
    job = cases.job(dense.model_copy(update={"blocks": blocks}), 256, seq_len=4096, global_batch=512)
    known = cases.plan(256, 512, tp=2.0, pp=16.0, ep=8.0, micro_batch=1.0, sequence_parallel=True,
                       stage_layers=(4, *(4,) * 14, 1))  # fmt: skip
    assert not broken(job, known, ENTRY)
    start = started(script(recorder, job, known), recorder)
    with mock.patch("megatron.core.transformer.transformer_config._validate_dsa_kernel_backend_dependencies"):
        verdict = megatron.judge(start, job.gpus, 9.0, build=False)
    assert verdict.error == ""
    read = verdict.derived["indexer"]
    assert read == ("dsa", indexer.heads, indexer.head_dim, indexer.topk, 1.0, True, "tilelang")


def test_a_smoke_run_is_the_same_training(megatron: Any, recorder: Path) -> None:
    """Of all that Megatron-LM derives nothing differs: table, batches, schedule, groups, layers."""
    for job, plan in legal_plans(SEED + 1, max(3, COUNT // 4), ENTRY):
        capability = job.hardware.pool.accelerator.compute_capability or ROCM
        real, smoke = (
            megatron.judge(started(script(recorder, job, plan), recorder, user), job.gpus, capability)
            for user in ({}, {"SMOKE": "1", "DATA_PATH": "", "OUTPUT_DIR": ""})
        )
        assert (smoke.error, smoke.derived) == (real.error, real.derived) == ("", real.derived)
        run = real.derived["run"]
        assert run["padded_vocab"] == padded_vocab(job.model.vocab, float(plan.tp))
        assert run["global_batch"] == job.workload.global_batch


def test_what_our_rules_refuse_megatron_refuses_or_runs_otherwise(
    megatron: Any, recorder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def judge(job: Job, plan: Plan) -> Verdict:
        capability = job.hardware.pool.accelerator.compute_capability or ROCM
        return megatron.judge(started(script(recorder, job, plan), recorder), job.gpus, capability)

    told, unexplained = tally(ENTRY, judge, SEED, COUNT)
    with capsys.disabled():
        print(told)  # noqa: T201
    assert not unexplained, unexplained
