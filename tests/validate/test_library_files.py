"""Libraries' own parsers take the files that are written for them, and make of them what the plan says.

TRL_PYTHON, LLAMA_FACTORY_PYTHON and AXOLOTL_PYTHON name interpreters with the library and DeepSpeed: the
three ask for different releases of transformers. Without a name the other runners' interpreter is asked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.libraries import libraries
from tests.cli.command import planner
from tests.helpers import ROOT
from tests.unit.test_libraries import CASES, LIBRARIES, LOW, files_of, plan_of, sayable, tuned
from tests.validate.ask import PYTHON

pytestmark = pytest.mark.torch

MODULES = {"trl": "trl", "llama-factory": "llamafactory", "axolotl": "axolotl"}
SET = {"TRAIN_STEPS": "20", "LEARNING_RATE": "0.0003", "OUTPUT_DIR": "/made/up", "DATA_PATH": "/data"}


def interpreter(library: str) -> str | None:
    """Return the interpreter that has a library, None where there is none."""
    python = os.environ.get(library.upper().replace("-", "_") + "_PYTHON", str(PYTHON))
    found = Path(python).exists() and subprocess.run(
        [python, "-c", f"import importlib.util as u; assert u.find_spec('{MODULES[library]}')"],
        capture_output=True,
        check=False,
    )
    return python if found and found.returncode == 0 else None


def words(library: str, host: str, place: Path, plan: Plan, job: Job) -> list[str]:
    """Return what the program gets after its name, the user's variables set."""
    runtime = libraries()[library].on(runtimes()[host])
    assert runtime.command is not None
    command = runtime.command(plan, job, runtime.versions[0])
    known = {**command.defaults, **SET, "CHECKPOINT": str(place), "HERE": str(place)}
    found = [str(place / part) if part in (command.files or {}) else part for part in command.program[1:]]
    return [*found, *(re.sub(r"\$\{(\w+)\}", lambda at: known[at[1]], part) for part in command.production)]


def answered(tmp_path: Path, library: str, written: Sequence[tuple[str, Plan, Job]]) -> list[dict[str, Any]]:
    """Return what a library makes of the files of plans on hosts, written to numbered folders.

    Skips where no interpreter has it, fails where it refuses one.
    """
    python = interpreter(library)
    if python is None:
        pytest.skip(f"no interpreter with {library}")
    asked = []
    for number, (host, plan, job) in enumerate(written):
        place = tmp_path / str(number)
        place.mkdir()
        for name, text in files_of(library, host, plan, job).items():
            (place / name).write_text(text, encoding="utf-8")
        given = words(library, host, place, plan, job)
        asked.append({"library": library, "folder": str(place), "words": given})
    run = subprocess.run(
        [python, ROOT / "tests/validate/check_libraries.py"],
        input="\n".join(map(json.dumps, asked)) + "\n",
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        check=False,
    )
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    assert len(answers) == len(written), run.stderr[-2000:]
    return [answer.get("derived") or pytest.fail(answer["refused"]) for answer in answers]


@pytest.mark.parametrize("library", LIBRARIES)
def test_files_are_taken_as_meant(tmp_path: Path, library: str) -> None:
    plans = [(host, plan_of(zero, recompute), tuned(method)) for host, method, zero, recompute in CASES]
    found = answered(tmp_path, library, plans)
    for number, ((host, method, zero, recompute), theirs) in enumerate(zip(CASES, found, strict=True)):
        sharded = host == "fsdp" and zero > 0
        expected = {
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "gradient_checkpointing": recompute == "full" and not sharded,
            "bf16": True,
            "optim": "adamw_torch_fused",
            "max_steps": 20,
            "learning_rate": 0.0003,
            "output_dir": "/made/up",
            "packing": True,
            "method": method,
            "model": str(tmp_path / str(number)),
            "length": 2047 if library == "llama-factory" else 2048,  # its packer pads by one token again
            "fsdp": sharded
            and {
                "version": 2,
                "reshard_after_forward": zero == 3,
                "activation_checkpointing": recompute == "full",
            },
        }
        if method != "full":
            expected["rank"] = 16
        assert {name: theirs[name] for name in expected} == expected
        named = Path(str(theirs["zero"])).name if theirs["zero"] else None
        assert named == ("ds_config.json" if host == "deepspeed" else None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_weights_and_states_of_few_bytes_are_taken_as_meant(tmp_path: Path, library: str) -> None:
    """Nothing computes in another dtype beside weights in bf16: Accelerate would shard them in float32."""
    cases = [(zero, work) for zero, work in LOW if sayable(library, zero, work)]
    found = answered(
        tmp_path, library, [("fsdp", plan_of(zero, "full"), tuned("full", **work)) for zero, work in cases]
    )
    for (zero, work), theirs in zip(cases, found, strict=True):
        own = "master_dtype" in work
        names = {"adamw": "adamw_torch_fused", "adam8bit": "adamw_torch_8bit", "sgd": "sgd"}
        assert theirs["optim"] == names[work.get("optimizer", "adamw")]
        assert theirs["bf16"] == (library == "axolotl" or not own), zero
        if library == "trl":
            assert theirs["dtype"] == ("bfloat16" if own else "float32")
        if library == "llama-factory":
            assert theirs["pure_bf16"] == own


MAKE = """
import json
import random
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

random.seed(0)
texts = [" ".join(random.choices([f"w{number}" for number in range(200)], k=60)) for _ in range(200)]
words = Tokenizer(models.WordLevel(unk_token="<unk>"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
special = ["<unk>", "<s>", "</s>", "<pad>"]
words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=special))
named = dict(bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")
PreTrainedTokenizerFast(tokenizer_object=words, **named).save_pretrained("model")
sizes = dict(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2)
heads = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=256)
LlamaForCausalLM(LlamaConfig(**sizes, **heads)).save_pretrained("model")
Path("data").mkdir()
Path("data/train.jsonl").write_text("".join(json.dumps({"text": text}) + chr(10) for text in texts))
"""
"""Makes a small model with a tokenizer, and made-up text."""


@pytest.mark.skipif(not os.environ.get("VALIDATE_RUNS"), reason="real runs: make validate-full")
@pytest.mark.parametrize(("method", "zero"), [("full", 0), ("full", 3), ("lora", 3)])
def test_a_small_model_trains_on_processors(tmp_path: Path, method: str, zero: int) -> None:
    python = interpreter("trl")
    if python is None:
        pytest.skip("no interpreter with trl")
    subprocess.run([python, "-c", MAKE], cwd=tmp_path, check=True, capture_output=True)
    asked = f"estimate {tmp_path / 'model'} --hardware dgx-h100 --gpus 2 --runtime fsdp --micro-batch 2"
    plan, out = str(tmp_path / "plan.yaml"), tmp_path / "out"
    sizes = ("--global-batch", "8", "--seq-len", "128", "--method", method, "--zero", str(zero))
    assert planner(*asked.split(), *sizes, "--save", plan).code == 0
    assert planner("emit", plan, "--target", "trl", "--out", str(out)).code == 0
    script = out / "train.sh"
    text = script.read_text(encoding="utf-8")
    script.write_text(text.replace("exec torchrun", "training+=(--use_cpu)\nexec torchrun"), encoding="utf-8")
    names = {"CHECKPOINT": "model", "DATA_PATH": "data", "OUTPUT_DIR": "run"}
    run = subprocess.run(
        ["bash", script],
        env=os.environ
        | {name: str(tmp_path / folder) for name, folder in names.items()}
        | {
            "TRAIN_STEPS": "3",
            "ACCELERATE_USE_CPU": "true",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
        }
        | {"PATH": f"{Path(python).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    losses = [float(found) for found in re.findall(r"'loss': '?([0-9.]+)", run.stdout)]
    assert len(losses) == 3
    assert all(0 < loss < 10 for loss in losses)
