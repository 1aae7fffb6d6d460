"""FSDP's script with weights, gradients and states in few bytes, really run on two processors, over gloo.

VALIDATE_PYTHON names an interpreter with torch, torchao, accelerate, transformers and datasets; `make
validate` makes one.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from planner.cost.case import case_of
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.unit.runner_jobs import job, model
from tests.validate.test_own_scripts import corpus, environment, losses, run, stopped, written

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        not os.environ.get("VALIDATE_RUNS"), reason="real runs take minutes: make validate-full"
    ),
    pytest.mark.needs("accelerate, torchao", "no interpreter with runners: make validate"),
]

GQA: Final = {"kind": "attention", "heads": 4, "kv_heads": 2, "head_dim": 32}
SMALL: Final = model(
    "small", {"d": {"mixer": GQA, "ffn": {"kind": "dense", "inner": 256}}}, ["d"] * 2, hidden=128, vocab=512
)
"""Matrices of 8,192 elements or more on a rank: torchao leaves states of fewer than 4,096 as they are."""

BFLOAT16: Final = {"master_dtype": "bf16", "gradient_dtype": "bf16"}
STATES: Final = [
    {**BFLOAT16, "state_dtype": "bf16"},
    {**BFLOAT16, "optimizer": "adam8bit"},
    {"optimizer": "adam8bit"},
    {**BFLOAT16, "state_dtype": "bf16", "optimizer": "sgd"},
]


def emitted(folder: Path, work: dict[str, Any], **axes: Any) -> tuple[Plan, Job]:
    """Write the files of a plan on two ranks."""
    task = job(SMALL, 2, seq_len=64, global_batch=4, **work)
    return written("fsdp", folder, task, **axes), task


@pytest.mark.parametrize(("zero", "work"), [(3, one) for one in STATES] + [(0, STATES[1])], ids=str)
def test_weights_and_states_rest_in_the_bytes_that_are_priced(
    zero: int, work: dict[str, Any], tmp_path: Path
) -> None:
    """The script's own tensors are counted once it has trained; it says that in the place of its end."""
    layout, task = emitted(tmp_path, work, zero=zero)
    script, end = (tmp_path / "train.py").read_text(), "    accelerator.free_memory()\n"
    assert script.count(end) == 1
    (tmp_path / "train.py").write_text(script.replace(end, COUNT + end))
    printed = run(tmp_path, environment(tmp_path, layout, "fsdp", SMOKE="1"))
    found = losses(printed)
    assert list(found) == list(range(1, 21))
    assert float(found[1][0]) == pytest.approx(math.log(512), abs=0.3)
    counted = re.search(r"counted elements (\d+) weights (\d+) states (\d+)", printed)
    assert counted
    elements, weights, states = map(int, counted.groups())
    case = case_of(layout, task, runtimes()["fsdp"])
    assert elements == pytest.approx(task.model.params / (2 if zero else 1), rel=0.001)
    assert weights == elements * case.weight_bytes
    assert states == pytest.approx(elements * case.optimizer_bytes, rel=0.02)


COUNT: Final = """\
    import gc

    def local(tensor):
        return tensor.to_local() if hasattr(tensor, "to_local") else tensor

    def nbytes(tensor):
        whole = local(tensor)
        parts = [getattr(whole, name) for name in ("codes", "scale")] if hasattr(whole, "codes") else [whole]
        return sum(part.numel() * part.element_size() for part in parts)

    held = next(one for one in gc.get_objects() if isinstance(one, torch.optim.Optimizer) and one.state
                and not hasattr(one, "accelerator_state"))
    weights = [local(one) for group in held.param_groups for one in group["params"]]
    kept = [one for state in held.state.values() for name, one in state.items()
            if torch.is_tensor(one) and name != "step"]
    counts = sum(one.numel() for one in weights), sum(map(nbytes, weights)), sum(map(nbytes, kept))
    if accelerator.is_main_process:
        print("counted elements {} weights {} states {}".format(*counts), flush=True)
"""
"""Prints the elements that a rank steps, and the bytes of weights and states; the count of steps is none."""


@pytest.mark.needs("datasets", "no interpreter with datasets: make validate")
@pytest.mark.parametrize("work", STATES[:2], ids=str)
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(work: dict[str, Any], tmp_path: Path) -> None:
    layout, _ = emitted(tmp_path, work, zero=3)
    told = corpus(tmp_path) | {"TRAIN_STEPS": "16", "DECAY_STEPS": "16", "WARMUP_STEPS": "3"}
    whole = run(tmp_path, environment(tmp_path, layout, "fsdp", **told, OUTPUT_DIR=str(tmp_path / "whole")))
    again = environment(tmp_path, layout, "fsdp", **told, OUTPUT_DIR=str(tmp_path / "parts"))
    first = stopped(tmp_path, again, after=5)
    assert re.search(r"stopped after step (\d+)", first)
    found = losses(first) | losses(run(tmp_path, again))
    assert found == losses(whole)
    assert list(found) == list(range(1, 17))
