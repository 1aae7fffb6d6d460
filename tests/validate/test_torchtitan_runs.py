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

from planner.inputs.load import load_model
from planner.inputs.model import Experts
from tests.cli.command import planner
from tests.helpers import ROOT
from tests.validate.ask import PYTHON, has
from tests.validate.numerics import titan_says
from tests.validate.test_own_scripts import LIMIT, emitted, environment

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not has("tyro"), reason="no interpreter with tyro in VALIDATE_PYTHON"),
]

STEP = re.compile(r"step:\s+(\d+).*tps: ([0-9,]+)")


def smoke(folder: Path, version: str, checkout: str) -> str:
    """Start a smoke run of the emitted files on a checkout, and return what it printed."""
    layout = emitted("torchtitan", folder, version=version, zero=3, recompute="full")
    script = folder / "train.sh"
    if not version.startswith("0.2."):  # released PyTorch shards no spmd_types
        words = "  --compile.no-enable\n  --parallelism.spmd_backend partial_dtensor"
        script.write_text(script.read_text().replace("  --compile.enable", words))
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


@pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan")
def test_the_newest_gets_to_its_first_backward(tmp_path: Path) -> None:
    """Its attention has no backward on a processor: everything before that is real."""
    printed = smoke(tmp_path, "main-2026-08-21", os.environ["TORCHTITAN"])
    assert "Trainer is initialized" in printed, printed[-3000:]
    assert "total steps 20 (warmup " in printed
    assert "FlexAttention does not support backward on CPU" in printed, printed[-3000:]
