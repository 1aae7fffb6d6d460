"""Engines: one file each, found by name; the largest of their moments is the peak that is priced."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.cost.estimate import estimate
from planner.cost.memory.peaks import largest
from planner.numeric import Num
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.techniques.engines import ENGINES, Engine
from planner.techniques.engines.family import Moment, PassBytes, Step
from planner.techniques.engines.rounds import round_moments
from planner.techniques.sharding import SHARDINGS
from tests.cases import every
from tests.cli.command import planner
from tests.helpers import ROOT
from tests.unit.cost_jobs import job, plan_of, runtime

EVERY = every("engine", ENGINES.values(), ids=ENGINES)
PASSES = 9
"""Fields of `PassBytes` that all engines read."""


def drawn(columns: int, seed: int) -> list[Step]:
    """Return steps with random bytes and degrees, a plan in each column."""
    draw = np.random.default_rng(seed)
    steps = []
    for name in ("zero0", "zero1", "zero2", "zero3"):
        for flag in (False, True):
            passes = PassBytes(*draw.uniform(0.0, 9.0, (PASSES, columns)), chunk=3.0, gathered_chunk=2.0)
            plan = Plan(
                tp=draw.integers(1, 3, columns).astype(float),
                pp=draw.integers(1, 3, columns).astype(float),
                vpp=draw.integers(1, 4, columns).astype(float),
                dp=draw.integers(1, 3, columns).astype(float),
                num_microbatches=draw.integers(1, 3, columns).astype(float),
                zero_shards=draw.integers(1, 5, columns).astype(float),
            )
            steps.append(
                Step(
                    passes, plan, replace(SHARDINGS[name], keeps_gathered=flag and name == "zero3"),
                    *draw.uniform(0.0, 9.0, (2, columns)), 4.0, 2.0, waiting=float(flag), whole_layers=flag,
                    loss_beside=not flag, loss_in_parts=flag, whole_tables=flag, live_elements=float(flag),
                    bucket_elements=float(flag),
                )
            )  # fmt: skip
    return steps


def one_of(step: Step, place: int) -> Step:
    """Return one plan of a batch of steps, as plain numbers."""

    def at(record: object) -> dict[str, float]:
        fields = vars(record).items()
        return {name: float(value[place]) for name, value in fields if isinstance(value, np.ndarray)}

    known = replace(
        step, passes=replace(step.passes, **at(step.passes)), plan=replace(step.plan, **at(step.plan))
    )
    return replace(known, **at(known))


@EVERY
def test_a_column_of_plans_has_the_bits_of_each_alone(engine: Engine) -> None:
    for step in drawn(20, seed=3):
        for make in (engine.moments, round_moments):
            together = largest(make(step))
            for place in range(20):
                alone = largest(make(one_of(step, place)))
                for name in ("activations", "workspace", "gradients"):
                    one, many = getattr(alone, name), getattr(together, name)
                    assert one is many is None or one == np.broadcast_to(many, (20,))[place], name


@EVERY
def test_the_peak_is_the_first_of_the_largest_moments(engine: Engine) -> None:
    chosen = set()
    for step in drawn(60, seed=4):
        for make in (engine.moments, round_moments):
            for place in range(60):
                moments = make(one_of(step, place))
                best = max(moments, key=lambda one: float(one.size))
                peak = largest(moments)
                chosen.add((make, best.name))
                parts = peak.workspace + (peak.gradients or 0.0) + peak.activations * best.spans
                assert float(parts) == pytest.approx(float(best.size))
                assert (peak.activations, peak.gradients) == (best.activations, best.gradients)
                assert len({one.name for one in moments}) == len(moments)
    assert len(chosen) > 5, "each moment is the largest somewhere"


def hand(size: float, activations: Num, gradients: Num) -> Moment:
    return Moment("", "loss", size, activations, gradients)


def test_of_equal_moments_the_first_counts() -> None:
    peak = largest((hand(6.0, 1.0, 2.0), hand(6.0, 3.0, 1.0), hand(5.0, 5.0, 0.0)))
    assert (peak.activations, peak.gradients, peak.workspace) == (1.0, 2.0, 3.0)


def test_ddp_by_hand() -> None:
    """Two layers of 10 weights, a table of 10, gradients of 4 bytes: 120 bytes in all.

    Activations 40 of 20 a layer; a layer rebuilds 5, its gradients in 16 bit are 20, less 20 that forward
    left. The loss needs 7. In the one micro-batch of a single rank gradients are made as backward goes: its
    last layer has 40 - 20 + 40 of its own, 5 inside; its first one 20, 5 and 120 - 40 - 40; at the end all
    120 are there. Ranks that share them have 120 more throughout, buckets of which gradients are no views:
    with torch 2.13 on a CPU, 24 layers of 2048 x 2048, a process grows by 384 MiB in buckets and as much in
    gradients by its first backward, and by half of that with ``gradient_as_bucket_view=True``.
    """
    passes = PassBytes(40.0, 5.0, 7.0, 10.0, 20.0, 0.0, 20.0, 0.0, 20.0)
    step = Step(passes, Plan(dp=2.0), SHARDINGS["zero0"], 120.0, 0.0, 4.0, 4.0)
    told = {one.name: one.size for one in ENGINES["fsdp2"].moments(step)}
    assert told == {
        "the first layer's backward": 20 + 5 + 40 + 120,
        "the end of backward": 120 + 120,
        "the last layers' backward": 40 + 5 + (40 - 20) + 120,
        "the loss": 40 + 7 + 120,
    }
    for summed in (replace(step, plan=Plan(dp=2.0, num_microbatches=2.0)), replace(step, after_others=True)):
        (loss,) = (one for one in ENGINES["fsdp2"].moments(summed) if one.phase == "loss")
        assert loss.size == 40 + 7 + 120 + 120
    alone = {one.name: one.size for one in ENGINES["fsdp2"].moments(replace(step, plan=Plan()))}
    assert alone == {
        "the first layer's backward": 20 + 5 + 40,
        "the end of backward": 120,
        "the last layers' backward": 40 + 5 + (40 - 20),
        "the loss": 40 + 7,
    }


def test_copies_that_autocast_makes_by_hand() -> None:
    """Two layers of 20 bytes in 16 bits: 40 until the loss is there, and until each product's backward.

    With torch 2.13 on a CPU, 24 layers of 2048 x 2048 in fp32 grow by 192 MiB, half of their size, in a
    forward pass under ``torch.autocast``, which are there after it too.
    """
    passes = PassBytes(40.0, 5.0, 7.0, 10.0, 20.0, 0.0, 20.0, 0.0, 20.0)
    step = Step(passes, Plan(), SHARDINGS["zero0"], 120.0, 0.0, 4.0, 4.0)
    names = ("the loss", "the last layers' backward", "the first layer's backward", "the end of backward")

    def sizes(step: Step) -> list[float]:
        told = {one.name: float(one.size) for one in ENGINES["fsdp2"].moments(step)}
        return [told[name] for name in names]

    for whole_layers, grown in ((False, [40.0, 40.0, 20.0, 0.0]), (True, [40.0, 20.0, 20.0, 0.0])):
        plain = replace(step, whole_layers=whole_layers)
        copied = sizes(replace(plain, gathered=40.0))
        assert [one - other for one, other in zip(copied, sizes(plain), strict=True)] == grown


def test_whole_weights_in_fp32_are_copied_and_others_are_not() -> None:
    """Weights of 4 bytes and copies of 2, but for a table that is no head; in bf16, of 2 and masters of 4."""

    def at_loss(**traits: str) -> float:
        own = estimate(plan_of(job(), zero=0), job(), runtime("fsdp", **traits)).stages[0]
        return dict(own.moments)["the loss"]

    model = job().model
    untied = 0 if model.tied_embeddings else model.vocab * model.hidden
    whole = 2.0 * (model.params - untied)
    kept, alone = at_loss(), at_loss(parameter_dtype="bf16")
    assert kept - alone == pytest.approx(whole - 2.0 * model.params, rel=1e-6)


@EVERY
def test_what_is_told_of_an_engine_is_what_is_priced(engine: Engine) -> None:
    """The largest of a stage's moments is its live tensors, but for the optimizer's, whose slack counts."""
    for zero in (0, 1, 2, 3):
        answer = estimate(plan_of(job(), zero=zero, pp=2), job(), runtime(engine=engine.name))
        for stage in answer.stages:
            assert max(nbytes for _, nbytes in stage.moments) == pytest.approx(stage.allocated)


def test_every_runtime_names_an_engine() -> None:
    assert {one.traits.engine.name for one in runtimes().values()} <= set(ENGINES)
    refused = planner("estimate", "llama3-8b", "--hardware", "dgx-h100", "--set", "engine=fsdp3")
    assert refused.code == 2
    assert "nearest: fsdp" in refused.err


TOY = """\"\"\"A toy.\"\"\"

from dataclasses import replace

from planner.techniques.engines.family import Moment, Moments, Step
from planner.techniques.engines import distributed_optimizer


def moments(step: Step) -> Moments:
    return (Moment("all of it", "backward", 2.0**30, step.passes.activations, spans=False),)


ENTRY = replace(distributed_optimizer.ENTRY, name="toy", cite="None.", whole=moments)
"""


def test_a_file_is_all_that_an_engine_needs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "planner", tmp_path / "planner")
    for name in ("hardware_profiles", "models_zoo"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "planner" / "techniques" / "engines" / "toy.py").write_text(TOY)
    ask = "estimate gpt2 --hardware dgx-h100 --gpus 1 --zero 0 --set engine=toy"
    ask += " --set product_workspaces=0 --format json"
    done = subprocess.run(
        [sys.executable, "-m", "planner", *ask.split()],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["moments"]["engine"] == "toy"
    assert [one["moment"] for one in answer["moments"]["stages"][0]["moments"]] == ["all of it"]
    assert answer["memory"]["stages"][0]["workspace_gib"] == 1.0
