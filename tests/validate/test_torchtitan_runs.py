"""torchtitan really runs what is written for it: two ranks on processors, over gloo.

TORCHTITAN names a checkout at the commit of the newest files, TORCHTITAN_02 one of v0.2.2, VALIDATE_PYTHON an
interpreter with what its requirements.txt lists, triton and torchdata.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.model import Experts, ModelSpec
from tests.cli.command import planner
from tests.helpers import ROOT
from tests.unit.runner_jobs import job
from tests.validate.ask import PYTHON, has
from tests.validate.numerics import titan_says
from tests.validate.test_own_scripts import DELTA, LIMIT, NETS, TINY, emitted, environment, written

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("tyro", "no interpreter with tyro in VALIDATE_PYTHON"),
]

STEP = re.compile(r"step:\s+(\d+).*tps: ([0-9,]+)")


def smoke(folder: Path, version: str, checkout: str, what: ModelSpec = TINY) -> str:
    """Start a smoke run of the emitted files on a checkout, and return what it printed."""
    layout = emitted("torchtitan", folder, what, version=version, zero=3, recompute="full")
    script = folder / "train.sh"
    if not version.startswith("0.2."):
        uncompiled(folder, version)
    path = f"{ROOT / 'tests/validate/processors/torchtitan'}:{checkout}"
    env = environment(folder, layout, "torchtitan", PYTHONPATH=path, SMOKE="1")
    done = subprocess.run(
        ["bash", str(script)], env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.skipif(not os.environ.get("TORCHTITAN_02"), reason="TORCHTITAN_02 names no checkout of v0.2.2")
def test_a_release_trains_twenty_steps(tmp_path: Path) -> None:
    printed = smoke(tmp_path, "0.2.2", os.environ["TORCHTITAN_02"])
    steps = STEP.findall(printed)
    assert {int(number) for number, _ in steps} == set(range(1, 21)), printed[-3000:]
    said = re.search(r"planner mfu \S*plan.yaml --tokens-per-s-per-gpu ([0-9.]+)$", printed, re.MULTILINE)
    assert said
    assert said[1] in {speed.replace(",", "") for _, speed in steps[-10:]}
    assert not (tmp_path / "outputs" / "checkpoint").exists()


FAKE = """\
#!/bin/sh
while [ "$1" != -m ]; do shift; done
module="$2"; shift 2
exec "{python}" -m "$module" --comm.mode fake_backend "$@"
"""
"""torchtitan's dry run in place of torchrun: one rank of so many, whose messages nobody answers."""


def dry_run(folder: Path, version: str, checkout: str) -> str:
    """Start rank 0 of 16 on torchtitan's fake backend with the emitted files, and return what it printed.

    A pipeline cannot be run so: its stages ask each other for their shapes, and get whatever memory holds.
    """
    axes = {"tp": 2, "sequence_parallel": True, "zero": 3, "recompute": "full"}
    layout = written("torchtitan", folder, job(TINY, 16, seq_len=64, global_batch=32), version, **axes)
    uncompiled(folder, version)
    path = f"{ROOT / 'tests/validate/processors/torchtitan'}:{checkout}"
    user = {"PYTHONPATH": path, "SMOKE": "1", "NGPU": "16", "LOCAL_RANK": "0", "RANK": "0"}
    env = environment(folder, layout, "torchtitan", **user)
    (folder / "programs" / "torchrun").write_text(FAKE.format(python=PYTHON))
    done = subprocess.run(
        ["bash", "train.sh"], env=env, cwd=folder, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    return done.stdout + done.stderr


def uncompiled(folder: Path, version: str) -> None:
    """Change files to what released PyTorch does on a processor: no compiler, no ``spmd_types``."""
    if version.startswith("0.2."):
        toml = folder / "titan_plan.toml"
        toml.write_text(toml.read_text().replace("[compile]\nenable = true", "[compile]\nenable = false"))
    else:
        script, words = folder / "train.sh", "--parallelism.spmd_backend partial_dtensor"
        text = re.sub(r"--compile\.(no-)?enable", f"--compile.no-enable\n  {words}", script.read_text())
        script.write_text(text)


@pytest.mark.skipif(not os.environ.get("TORCHTITAN_02"), reason="TORCHTITAN_02 names no checkout of v0.2.2")
def test_a_release_trains_on_its_fake_backend_of_sixteen(tmp_path: Path) -> None:
    printed = dry_run(tmp_path, "0.2.2", os.environ["TORCHTITAN_02"])
    assert "'world': 16" in printed or "dp_shard=8" in printed.replace(" ", "") or "[8, 2]" in printed, (
        printed
    )
    assert {int(number) for number, _ in STEP.findall(printed)} == set(range(1, 21)), printed[-3000:]


@pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan")
def test_the_newest_gets_to_its_first_backward_on_its_fake_backend(tmp_path: Path) -> None:
    printed = dry_run(tmp_path, "main-2026-08-21", os.environ["TORCHTITAN"])
    assert "Trainer is initialized with 64 tokens per DP rank, 2048 tokens per train step" in printed
    assert "FlexAttention does not support backward on CPU" in printed, printed[-3000:]


RELEASED = (
    *("llama2-7b", "llama3.1-8b", "qwen3-0.6b", "qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v3", "kimi-k2"),
    *("mistral-7b-v0.3", "moonlight-16b-a3b"),
)


@pytest.mark.skipif(not os.environ.get("TORCHTITAN_02"), reason="TORCHTITAN_02 names no checkout of v0.2.2")
def test_a_release_builds_the_model_that_was_named(tmp_path: Path) -> None:
    """Parameters, rotation, norms and router, field by field, as the release's own code has them."""
    job = ("--hardware", "dgx-h100", "--gpus", "64", "--seq-len", "4096", "--global-batch", "64")
    for name in RELEASED:
        kept = tmp_path / f"{name}.yaml"
        planner("estimate", name, *job, "--runtime", "torchtitan@0.2.2", "--save", str(kept))
        assert planner("emit", str(kept), "--out", str(tmp_path / name), "--unfit").code == 0
    asked = "".join(json.dumps({"file": str(tmp_path / name / "titan_plan.py")}) + "\n" for name in RELEASED)
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_torchtitan_02.py"],
        input=asked, capture_output=True, text=True, check=False,
    )  # fmt: skip
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(answers) == len(RELEASED), done.stderr[-2000:]
    for name, answer in zip(RELEASED, answers, strict=True):
        model = load_model(name)
        bare = model.model_copy(update={"prediction": None})
        assert answer.get("params") == bare.params, (name, answer)
        said = answer | answer.get("rope_scaling_args", {}) | answer.get("moe_args", {})
        wanted = titan_says(model, model.layers[-1]) | {"theta": None, "init_std": None, "scaling": None}
        wanted = {key: value for key, value in wanted.items() if value is not None}
        assert {key: said[key] for key in wanted} == wanted, name
        assert model.numerics.rope_theta in (None, answer["rope_theta"]), name
        sparse = isinstance(model.blocks[model.layers[-1]].ffn, Experts)
        assert not (sparse and said["score_before_experts"]), name


NETS_OF_TITAN = {
    kind: model_from_config(DELTA | sizes | {"model_type": kind}, "config.json", kind).model
    for kind, sizes in NETS.items()
}
SEEING = model_from_config(
    {
        "model_type": "qwen3_5", "text_config": DELTA | {"model_type": "qwen3_5_text"},
        "vision_config": {"depth": 2, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48,
                          "out_hidden_size": 64, "num_position_embeddings": 16, "patch_size": 4},
    },
    "config.json", "qwen3_5",
).model  # fmt: skip
if SEEING.encoder is not None:
    SMALL = SEEING.encoder.model_copy(update={"patches": 64})
    NETS_OF_TITAN["qwen3_5"] = SEEING.model_copy(update={"encoder": SMALL})


@pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan")
@pytest.mark.parametrize("what", [TINY, *NETS_OF_TITAN.values()], ids=["tiny", *NETS_OF_TITAN])
def test_the_newest_gets_to_its_first_backward(tmp_path: Path, what: ModelSpec) -> None:
    """Its attention has no backward on a processor: everything before that is real."""
    if what is not TINY and not has("fla"):
        pytest.skip("no interpreter with flash-linear-attention in VALIDATE_PYTHON")
    printed = smoke(tmp_path, "main-2026-08-21", os.environ["TORCHTITAN"], what)
    assert "Trainer is initialized" in printed, printed[-3000:]
    assert "total steps 20 (warmup " in printed
    assert "FlexAttention does not support backward on CPU" in printed, printed[-3000:]
