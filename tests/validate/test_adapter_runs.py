"""Adapters really trained by the written FSDP scripts: peft and bitsandbytes on two processors, over gloo.

VALIDATE_PYTHON names an interpreter with torch, accelerate, transformers and peft; weights in four bits need
bitsandbytes too, whose kernels run on processors.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from planner.cost.case import case_of
from planner.cost.memory.weights import StageWeights, stage_weights
from planner.cost.stages import stages_of
from planner.cost.step.layout import piece_costs, priced_layers, ranks_of, with_split
from planner.cost.step.step import piece_totals
from planner.inputs.hf_config import model_from_config
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.techniques.methods import METHODS
from tests.unit.runner_jobs import job
from tests.validate.ask import PYTHON, has
from tests.validate.test_own_scripts import DELTA, STEP, TINY, environment, pytestmark, run, written

__all__ = ["pytestmark"]

PREPARED = "    model.train()\n    part, parts = "
"""Where the script has prepared its model."""

HELD = """    held = [one.to_local() if hasattr(one, "to_local") else one for one in model.parameters()]
    bytes_held = sum(one.numel() * one.element_size() for one in held)
    learned_here = sum(one.numel() for one in held if one.requires_grad)
    print(f"rank holds {bytes_held} bytes and trains {learned_here};", flush=True)
"""
WEIGHTS = """import sys, torch
from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.from_pretrained(sys.argv[1])
AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(sys.argv[2])
"""


def priced(plan: Plan, task: Job) -> StageWeights:
    """Return the weights that the price has on all ranks together."""
    case = case_of(plan, task, runtimes()["fsdp"])
    plan = with_split(plan, case)
    ranks = ranks_of(plan, case)
    totals = piece_totals(ranks)
    return stage_weights(
        case, piece_costs(case, plan, priced_layers(case, plan, totals), totals), stages_of(ranks)
    )


RAW = DELTA | {"model_type": "qwen3_5_text"}
MODELS = {"attention": TINY, "delta": model_from_config(RAW, "config.json", "delta").model}
NORMS = {"attention": 0, "delta": 3 * (2 * 64 + 128 * 4 + 2 * 4 + 16) + 2 * 64 + 2 * 16}
"""Parameters of layers that are in no linear layer, beside two norms of each of the first: convolutions,
decays and norms of gated delta nets, and those of heads."""


@pytest.mark.needs("peft", "no interpreter with peft")
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("method", "zero"), [("lora", 0), ("lora", 3), ("qlora", 0), ("qlora", 3)], ids=str)
def test_adapters_are_trained_and_held_as_they_are_priced(
    method: str, zero: int, kind: str, tmp_path: Path
) -> None:
    what = MODELS[kind]
    if method == "qlora" and not has("bitsandbytes"):
        pytest.skip("no interpreter with bitsandbytes")
    task = job(what, 2, seq_len=64, global_batch=4, method=method, lora_rank=4)
    plan = written("fsdp", tmp_path, task, zero=zero)
    subprocess.run([PYTHON, "-c", WEIGHTS, tmp_path, tmp_path / "weights"], check=True, capture_output=True)
    script = (tmp_path / "train.py").read_text()
    assert script.count(PREPARED) == 1
    # on processors a whole model in four bits stays where it is read
    placed = script.replace('{"": accelerator.local_process_index}', "None")
    (tmp_path / "train.py").write_text(placed.replace(PREPARED, HELD + PREPARED))
    told = {"SMOKE": "1", "CHECKPOINT": str(tmp_path / "weights"), "LEARNING_RATE": "0.01"}
    printed = run(tmp_path, environment(tmp_path, plan, "fsdp", **told))
    assert len(STEP.findall(printed)) == 20
    found = [
        tuple(map(int, pair)) for pair in re.findall(r"rank holds (\d+) bytes and trains (\d+);", printed)
    ]
    assert len(found) == 2
    shares = 1 if zero == 3 else 2
    weights = priced(plan, task)
    # scales of weights in four bits are no parameters
    linear = sum(what.block_params(name) for name in what.layers)
    linear -= NORMS[kind] or 2 * what.hidden * what.num_layers
    scales = METHODS[method].scale_bytes * linear
    assert sum(bytes_held for bytes_held, _ in found) == pytest.approx(shares * (weights.stored - scales))
    assert sum(learned for _, learned in found) == shares * weights.trained
