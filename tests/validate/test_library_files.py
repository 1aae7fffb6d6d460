"""Libraries' own parsers take the files that are written for them, and make of them what the plan says.

TRL_PYTHON, LLAMA_FACTORY_PYTHON and AXOLOTL_PYTHON name interpreters with the library and DeepSpeed: the
three ask for different releases of transformers. Without a name the other runners' interpreter is asked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planner.runtimes import runtimes
from planner.runtimes._libraries import libraries
from tests.helpers import ROOT
from tests.unit.test_libraries import CASES, LIBRARIES, files_of, plan_of, tuned
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


def words(library: str, host: str, place: Path, case: tuple[int, str, str]) -> list[str]:
    """Return what the program gets after its name, the user's variables set."""
    zero, recompute, method = case
    runtime = libraries()[library].on(runtimes()[host])
    assert runtime.command is not None
    command = runtime.command(plan_of(zero, recompute), tuned(method), runtime.versions[0])
    known = {**command.defaults, **SET, "CHECKPOINT": str(place), "HERE": str(place)}
    found = [str(place / part) if part in (command.files or {}) else part for part in command.program[1:]]
    return [*found, *(re.sub(r"\$\{(\w+)\}", lambda at: known[at[1]], part) for part in command.production)]


@pytest.mark.parametrize("library", LIBRARIES)
def test_files_are_taken_as_meant(tmp_path: Path, library: str) -> None:
    python = interpreter(library)
    if python is None:
        pytest.skip(f"no interpreter with {library}")
    asked = []
    for number, (host, method, zero, recompute) in enumerate(CASES):
        place = tmp_path / str(number)
        place.mkdir()
        for name, text in files_of(library, host, plan_of(zero, recompute), tuned(method)).items():
            (place / name).write_text(text, encoding="utf-8")
        given = words(library, host, place, (zero, recompute, method))
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
    assert len(answers) == len(CASES), run.stderr[-2000:]
    for (host, method, zero, recompute), answer, question in zip(CASES, answers, asked, strict=True):
        theirs: dict[str, Any] = answer.get("derived") or pytest.fail(answer["refused"])
        sharded = host == "fsdp" and zero > 0
        expected = {
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "gradient_checkpointing": recompute == "full" and not sharded,
            "bf16": True,
            "optim": "adamw_torch",
            "max_steps": 20,
            "learning_rate": 0.0003,
            "output_dir": "/made/up",
            "packing": True,
            "method": method,
            "model": question["folder"],
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
