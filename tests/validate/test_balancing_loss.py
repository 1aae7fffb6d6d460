"""The loss that FSDP's and DeepSpeed's scripts train is transformers' own, the experts' balance included."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from planner.runtimes import runtimes
from tests.helpers import ROOT
from tests.unit.test_numerics_compared import with_numbers
from tests.validate.ask import PYTHON
from tests.validate.megatron import cases

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("deepspeed", "no interpreter with deepspeed: make validate"),
]


@pytest.mark.parametrize("runtime", ["fsdp", "deepspeed"])
def test_scripts_train_the_balance_of_experts(runtime: str, tmp_path: Path) -> None:
    entry = runtimes()[runtime]
    assert entry.command is not None
    folders = []
    for name in ("mixtral-8x7b", "qwen3-30b-a3b", "llama2-7b"):
        job = cases.job(name, 8, seq_len=1024, global_batch=8)
        if job.model.expert_kinds:
            job = with_numbers(job, router={"score": "softmax", "normalize": True, "aux_loss": 0.05})
        command = entry.command(cases.plan(8, 8, zero=3), job, entry.versions[0])
        (folder := tmp_path / name).mkdir()
        for file, text in (command.files or {}).items():
            (folder / file).write_text(text)
        folders.append(folder)
    run = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_balance.py"],
        input="".join(json.dumps({"folder": str(folder)}) + "\n" for folder in folders),
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=True,
    )
    found = [json.loads(line) for line in run.stdout.splitlines()]
    assert [answer.get("refused") for answer in found] == [None, None, None]
    for folder, answer in zip(folders, found, strict=True):
        losses = answer["derived"]
        assert losses["trained"] == pytest.approx(losses["own"], rel=1e-5)
        assert losses["evaluated"] == pytest.approx(losses["alone"], rel=1e-5)
        balanced = losses["own"] > losses["alone"] + 0.05
        assert balanced == (folder.name != "llama2-7b")
