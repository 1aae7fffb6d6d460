"""A prediction layer that runs several times with one set of weights: Nemotron 3 Super, on hybrids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.errors import InputError
from planner.inputs.build import build
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.launchers import launchers
from planner.launchers.emit import Card, Target, launch_files
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.imports.dispatch import read_runner_file
from tests.cli.command import planner

SUPER = load_model("nemotron-3-super-120b-a12b")
PLAN = Plan(ep=16.0, dp=64.0, zero=1, zero_shards=64.0, num_microbatches=1.0)


def job(model: ModelSpec = SUPER) -> Job:
    return Job(model, load_hardware("dgx-b200"), 64, Workload(seq_len=4096, global_batch=64))


def apart() -> ModelSpec:
    """Return the same with weights for each layer."""
    extra = SUPER.prediction
    assert extra is not None
    return SUPER.model_copy(update={"prediction": extra.model_copy(update={"repeated": False})})


def test_its_weights_count_once() -> None:
    """Attention with 32 and 2 heads of 128, experts in a latent space of 1,024, and the projection."""
    attention = 4096 * (32 + 2 * 2) * 128 + 32 * 128 * 4096
    experts = 512 * 2 * 1024 * 2688 + 2 * 4096 * 1024 + 2 * 4096 * 5376 + 512 * 4096 + 512
    norms = 2 * 4096 + 3 * 4096
    once = attention + experts + norms + 2 * 4096**2
    assert SUPER.prediction_params == pytest.approx(once, abs=600)
    assert apart().prediction_params == 2 * SUPER.prediction_params


def test_it_takes_time_twice_and_memory_once() -> None:
    bare = SUPER.model_copy(update={"prediction": None, "blocks": blocks_of(SUPER)})
    runtime = runtimes()["megatron-bridge"]
    none, shared, two = (float(estimate(PLAN, job(one), runtime).step) for one in (bare, SUPER, apart()))
    assert none < shared
    assert shared == pytest.approx(two, rel=0.01)
    pricer = Pricer(case_of(PLAN, job(), runtime), PLAN)
    other = Pricer(case_of(PLAN, job(apart()), runtime), PLAN)
    for name in ("predicting", "prediction"):
        ours, theirs = priced_layer(pricer, name).operators, priced_layer(other, name).operators
        assert total(ours, "params") * 2 == total(theirs, "params")
        assert total(ours, "forward") == total(theirs, "forward")


def blocks_of(model: ModelSpec) -> dict[str, Any]:
    return {name: block for name, block in model.blocks.items() if name in model.layers}


def test_the_block_is_its_own() -> None:
    raw = {
        "name": "m", "hidden": 64, "vocab": 128, "tied_embeddings": False,
        "blocks": {"d": {"mixer": {"kind": "attention", "heads": 4, "kv_heads": 4, "head_dim": 16},
                         "ffn": {"kind": "dense", "inner": 128}}},
        "layers": ["d", "d"], "prediction": {"layers": 2, "block": "d", "repeated": True},
    }  # fmt: skip
    with pytest.raises(InputError, match="a block of its own"):
        build(ModelSpec, raw, "m")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("megatron-lm", ("/*E/*E", "--mtp-num-layers 2", "--mtp-use-repeated-layer")),
        ("megatron-bridge", ("/*E/*E", "mtp_num_layers=2", "mtp_use_repeated_layer=True")),
    ],
)
@pytest.mark.parametrize("pp", [1.0, 2.0])
def test_files_say_it_and_are_read_back(name: str, words: tuple[str, ...], pp: float, tmp_path: Path) -> None:
    runtime, asked = runtimes()[name], job()
    plan = replace(PLAN, pp=pp, dp=64.0 / pp, zero_shards=64.0 / pp, num_microbatches=pp)
    target = Target(runtime, launchers()["torchrun"], runtime.versions[0])
    files = launch_files(plan, asked, target, Card())
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    text = " ".join(" ".join(files.values()).replace("\\\n", " ").split())
    assert [word for word in words if word not in text] == []
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-b200", "--format", "json")
    told = planner("estimate", *said)
    assert told.code in (0, 1), told.err
    assert told.json["model"]["name"] == SUPER.name
    assert told.json["step_time_s"] == pytest.approx(float(estimate(plan, asked, runtime).step), rel=1e-6)


def test_one_of_a_plain_model_is_as_its_last_layer(tmp_path: Path) -> None:
    words = (
        "--num-layers 4 --hidden-size 1024 --num-attention-heads 8 --seq-length 512 --micro-batch-size 1"
        " --max-position-embeddings 512 --position-embedding-type rope --mtp-num-layers 3 --vocab-size 32000"
        " --mtp-use-repeated-layer"
    )
    (tmp_path / "train.sh").write_text(f"torchrun --nproc_per_node 8 pretrain_gpt.py {words}\n")
    found = read_runner_file(tmp_path / "train.sh")
    assert found.model is not None
    extra = found.model.prediction
    assert extra is not None
    assert (extra.layers, extra.copies, found.unknown) == (3, 1, ())
    assert found.model.blocks[extra.block] == found.model.blocks[found.model.layers[-1]]


def test_a_pattern_without_it_asks_for_none(tmp_path: Path) -> None:
    words = "--hybrid-layer-pattern M*M- --mtp-num-layers 2 --num-layers 4 --hidden-size 1024"
    words += " --num-attention-heads 8 --seq-length 512 --max-position-embeddings 512 --micro-batch-size 1"
    words += " --position-embedding-type none"
    (tmp_path / "train.sh").write_text(f"torchrun --nproc_per_node 8 pretrain_hybrid.py {words}\n")
    told = planner("estimate", "--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100")
    assert told.code == 2
    assert "or / and the symbols of each such layer" in told.err.replace("\n", " ")
