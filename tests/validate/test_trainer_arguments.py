"""Arguments of Hugging Face's Trainer are read as its own parser reads them."""

from __future__ import annotations

import json
import os
import random
import shlex
import subprocess
from pathlib import Path

import pytest

from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.libraries.reading.trainer import OPTIMIZERS
from tests.helpers import ROOT
from tests.validate.ask import COUNT, PYTHON, SEED

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("transformers", "no interpreter with transformers: make validate"),
]

STAGES = {"full_shard auto_wrap": "3", "shard_grad_op auto_wrap": "2", "no_shard": "0"}
OPTIMIZER = ("adamw_torch", "adamw_torch_fused", "adamw_bnb_8bit", "paged_adamw_8bit", "sgd")


def command(draw: random.Random) -> list[str]:
    """Return random arguments: dashes or underscores, an equals sign or a blank, switches bare or not."""
    words: list[str] = []
    for name, values in {
        "per_device_train_batch_size": ("1", "2", "4", "16"),
        "gradient_accumulation_steps": ("1", "3", "8"),
        "optim": OPTIMIZER,
        "gradient_checkpointing": ("", "True", "true", "False", "1", "no"),
        "fsdp": tuple(STAGES),
        draw.choice(("bf16", "fp16")): ("", "True", "False", "yes", "0"),
    }.items():
        if name == "per_device_train_batch_size" or draw.random() < 0.6:
            flag, value = f"--{name}", draw.choice(values)
            flag = flag.replace("_", "-") if draw.random() < 0.3 else flag
            joined = draw.random() < 0.3 and value
            words += [f"{flag}={value}"] if joined else [flag, value] if value else [flag]
    return words


def test_random_arguments_are_read_as_the_trainer_reads_them(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    commands = [command(draw) for _ in range(5 * COUNT)]
    run = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_trainer.py"],
        input="\n".join(map(json.dumps, commands)) + "\n",
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        check=False,
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(commands), run.stderr[-2000:]
    path = tmp_path / "run.sh"
    start = "torchrun --nproc_per_node 4 run_clm.py --model_name_or_path gpt2 --block_size 512"
    for words, answer in zip(commands, answers, strict=True):
        theirs = answer["derived"]
        path.write_text(f"{start} {shlex.join(words)}\n", encoding="utf-8")
        found = read_runner_file(path)
        kind = "bf16" if theirs["bf16"] == "True" else "fp16" if theirs["fp16"] == "True" else "fp32"
        expected = {
            "micro_batch": theirs["per_device_train_batch_size"],
            "accumulation": theirs["gradient_accumulation_steps"],
            "recompute": "full" if theirs["gradient_checkpointing"] == "True" else "none",
            "precision": kind,
            "zero": STAGES.get(theirs["fsdp"] or "", "0"),
            "optimizer": OPTIMIZERS[theirs["optim"].removeprefix("OptimizerNames.").lower()],
        }
        assert {name: found.options[name] for name in expected} == expected, words
        assert not found.faults, words
