"""torchtitan really runs what is written for it: two ranks on processors, over gloo.

TORCHTITAN names a checkout at the commit of the newest files, TORCHTITAN_02 one of v0.2.2, VALIDATE_PYTHON an
interpreter with what its requirements.txt lists, triton and torchdata.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.validate.ask import has
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


@pytest.mark.skipif(not os.environ.get("TORCHTITAN"), reason="TORCHTITAN names no checkout of torchtitan")
def test_the_newest_gets_to_its_first_backward(tmp_path: Path) -> None:
    """Its attention has no backward on a processor: everything before that is real."""
    printed = smoke(tmp_path, "main-2026-08-21", os.environ["TORCHTITAN"])
    assert "Trainer is initialized" in printed, printed[-3000:]
    assert "total steps 20 (warmup " in printed
    assert "FlexAttention does not support backward on CPU" in printed, printed[-3000:]
