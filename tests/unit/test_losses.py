"""Kinds of loss: bytes by hand, numbers that come with a kind or are set apart, and former names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.memory.stage_memory import _logits, loss_parts
from planner.dataclasses import replace
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.settings import changed
from planner.runtimes.traits import Traits, over
from planner.techniques.losses import LOSSES
from planner.techniques.settings import SETTINGS
from tests.cases import every
from tests.cli.command import planner
from tests.helpers import ROOT
from tests.unit.cost_jobs import job, plan_of, runtime

GPT2 = ("estimate", "gpt2", "--hardware", "dgx-h100", "--gpus", "8", "--global-batch", "64")
BY_HAND = {
    # Cast, largest, difference, power, sum, quotient; product and cast back. Live: 16-bit logits, fp32 copy.
    "vocab-parallel": (2 + 4, 6 + 4 + 8 + 8 + 4 + 8 + 8 + 6),
    # The difference is a third tensor.
    "vocab-parallel-copied": (2 + 4 + 4, 52),
    # Two reads in 16 bits, a write, and a product with the gradient from above; an fp32 gradient.
    "transformer-engine": (2 + 4, 2 + 2 + 2 + 4),
    # Logarithms and two gradients in fp32; the model's output holds the 16-bit logits besides.
    "eager": (4 + 4 + 4, 36),
    "transformers": (2 + 4 + 4 + 4, 36),
    # Liger's: a gradient in the place of its 16-bit logit, which is read twice.
    "fused-linear": (2, 2 + 2 + 2),
    # Logits, logarithms and gradients in 16 bits.
    "sixteen-bit": (2 + 2 + 2, 12),
}


@every("name", BY_HAND)
def test_bytes_of_a_logit_are_those_counted_in_the_code(name: str) -> None:
    assert (LOSSES[name].logit_bytes, LOSSES[name].traffic) == BY_HAND[name]


def test_a_runtime_has_the_loss_of_its_own_code() -> None:
    kinds = {name: one.traits.loss.kind for name, one in runtimes().items()}
    megatron = dict.fromkeys(("megatron-lm", "megatron-bridge"), "vocab-parallel-fused")
    assert kinds == {
        **megatron,
        "deepspeed": "tiled",
        "fsdp": "transformers",
        "nanotron": "vocab-parallel-copied",
        "torchtitan": "chunked",
    }


@every("name", LOSSES)
def test_a_kind_brings_its_numbers_and_one_is_told_as_one_change(name: str) -> None:
    kind, plain = LOSSES[name], Traits()
    traits = plain.with_values(loss_traffic=99.0, logit_bytes=99.0).with_values(loss=name)
    assert (traits.loss.logit_bytes, traits.loss.traffic) == (kind.logit_bytes, kind.traffic)
    assert changed(traits, plain) == ({} if name == plain.loss.kind else {"loss": name})
    apart = plain.with_values(logit_bytes=7.0, loss=name)
    assert (apart.loss.logit_bytes, apart.loss.traffic) == (7.0, kind.traffic)
    assert plain.with_values(**changed(apart, plain)) == apart


def test_a_kind_goes_over_numbers_below_it_and_under_those_beside_it() -> None:
    below = {"loss": "eager", "logit_bytes": 17.5, "tp_exposed": 1.0}
    assert over(below, {"loss": "xla"}) == {"tp_exposed": 1.0, "loss": "xla"}
    assert over(below, {"logit_bytes": 8.0}) == below | {"logit_bytes": 8.0}


def test_parts_that_run_again_take_time_and_those_that_do_not_take_none() -> None:
    """DeepSpeed's tiles run head and loss forward once more; torchtitan's parts do not."""
    work = job(gpus=1)
    whole, tiled, parts = (
        estimate(
            plan_of(work), work, runtime(loss=kind, logit_bytes=12.0, loss_traffic=36.0, loss_chunks=count)
        )
        for kind, count in (("tiled", 1.0), ("tiled", 4.0), ("chunked", 4.0))
    )
    assert tiled.step > whole.step
    assert parts.step == whole.step


def test_what_the_parts_gather_is_in_the_dtype_of_the_kind() -> None:
    """Two bytes of each element of the hidden state under DeepSpeed, four under torchtitan."""
    work = job(gpus=1)
    cases = [case_of(plan_of(work), work, runtime(loss=kind)) for kind in ("tiled", "chunked")]
    assert [case.loss.gradient_bytes for case in cases] == [2.0, 4.0]


@every(
    ("vocab", "hidden", "tokens", "parts"),
    [(32000, 4096, 16384, 8), (128256, 4096, 8192, 32), (151936, 4096, 8192, 32), (32000, 2048, 4, 4)],
)
def test_a_fused_linear_loss_has_parts_of_a_power_of_two(
    vocab: int, hidden: int, tokens: int, parts: int
) -> None:
    """8 parts of 2,048 is the example of its source; 38 would be 216 tokens, which are taken as 256."""
    work = job(gpus=1)
    case = case_of(plan_of(work), work, runtime(loss="fused-linear"))
    model = case.model.model_copy(update={"vocab": vocab, "hidden": hidden})
    case = replace(case, job=replace(case.job, model=model))
    assert float(loss_parts(case, float(tokens))) == parts
    assert loss_parts(case, np.array([tokens, 1.0])).tolist() == [parts, 1.0]


def test_a_fused_linear_loss_needs_the_bytes_of_a_part() -> None:
    """32,000 words over 2,048: 16 parts of 2,048 tokens, and the hidden state's gradient, 2 bytes each."""
    work = job(gpus=1, global_batch=16)
    whole, parts = (
        step_passes(plan_of(work, micro_batch=16), work, kind) for kind in ("sixteen-bit", "fused-linear")
    )
    tokens = 16 * 2048
    assert whole == 6 * tokens * 32000
    assert parts == 2 * tokens / 16 * 32000 + 2 * tokens * 2048


def step_passes(plan: Plan, work: Job, kind: str) -> float:
    """Return the bytes of the loss of a plan."""
    case = case_of(plan, work, runtime(loss=kind))
    return float(_logits(case, plan, case.rank_tokens(plan)))


def test_answers_name_the_loss(tmp_path: Path) -> None:
    saved = tmp_path / "plan.yaml"
    document = planner(*GPT2, "--set", "loss=te", "--save", str(saved), "--format", "json").json
    assert document["moments"]["loss"] == "transformer-engine"
    assert yaml.safe_load(saved.read_text())["runtime"]["traits"] == {"loss": "transformer-engine"}
    told = " ".join(planner("explain", str(saved), "-v").out.split())
    assert "with the loss transformer-engine" in told


TOYS = {
    "losses": "from dataclasses import replace\n\nfrom planner.techniques.losses import eager\n\n"
    'ENTRY = replace(eager.ENTRY, name="toy", cite="None.", logit_bytes=3.0)\n',
    "allocators": "from planner.techniques.allocators.family import Allocator\n\n"
    'ENTRY = Allocator(name="toy", cite="None.", told="with a toy", needed=0.5)\n',
}


def test_a_file_is_all_that_a_loss_or_an_allocator_needs(tmp_path: Path) -> None:
    """The command line knows the names, and the price has what the records say."""
    shutil.copytree(ROOT / "planner", tmp_path / "planner")
    for name in ("hardware_profiles", "models_zoo"):
        (tmp_path / name).symlink_to(ROOT / name)
    for family, text in TOYS.items():
        (tmp_path / "planner" / "techniques" / family / "toy.py").write_text(text)
    plan = tmp_path / "plan.yaml"
    ask = [*GPT2, "--set", "loss=toy", "--set", "allocator=toy", "--save", str(plan), "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "planner", *ask], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (stage,) = answer["memory"]["stages"]
    assert answer["moments"]["loss"] == "toy"
    assert stage["reserve_gib"] == pytest.approx(0.5 * (stage["activations_gib"] + stage["workspace_gib"]))
    assert yaml.safe_load(plan.read_text())["runtime"]["traits"] == {"loss": "toy", "allocator": "toy"}


def test_the_setting_of_the_kernel_chooses_kinds() -> None:
    values = SETTINGS["loss_kernel"].values
    assert [changes["loss"] for changes in values.values()] == ["vocab-parallel-fused", "transformer-engine"]
