"""Qwen3.5 with images on torchtitan: its own encoder, its rules, what is written and read back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.cost.stages import ENCODER
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.vision_configs import with_encoder
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.imports.dispatch import read_runner_file
from planner.runtimes.torchtitan.model_data import part_names
from planner.runtimes.torchtitan.vision import sees
from planner.techniques.engines._fsdp import encoder_moments
from planner.techniques.engines.family import PassBytes, Step
from planner.techniques.sharding import SHARDINGS
from tests.cases import every
from tests.cli.command import planner

TITAN = runtimes()["torchtitan"]
PLAN = Plan(tp=2.0, dp=8.0, zero=3, zero_shards=8.0, num_microbatches=8.0, sequence_parallel=True)
WHOLE = replace(PLAN, recompute="full")


def seeing(name: str = "qwen3.5-9b") -> ModelSpec:
    return with_encoder(load_model(name))


def job(model: ModelSpec | None = None, **work: Any) -> Job:
    fields = {"seq_len": 8192, "global_batch": 64, "images": 8} | work
    return Job(model or seeing(), load_hardware("dgx-h100"), 16, Workload(**fields))


def encoder(plan: Plan, asked: Job) -> dict[str, float]:
    """Return seconds, weights, messages and bytes kept of the encoder on a rank."""
    pricer = Pricer(case_of(plan, asked, TITAN.for_model(asked.model)), plan)
    layer = priced_layer(pricer, ENCODER)
    fields = ("forward", "backward", "params", "kept")
    sent = layer.exchanges.tp
    found = {name: float(total(layer.operators, name)) for name in fields}
    return found | {"sent": float(sent.forward_sent), "sent_back": float(sent.backward_sent)}


def broken(plan: Plan, asked: Job) -> set[str]:
    case = case_of(plan, asked, TITAN.for_model(asked.model))
    return {one.rule for one in violations(all_rules(plan, case))}


@every(
    ("name", "params", "own"),
    # What torchtitan b5bcd76c builds on meta tensors, without tied embeddings.
    [
        ("qwen3.5-0.8b", 1_107_265_600, 100_592_896),
        ("qwen3.5-2b", 2_721_801_024, 331_416_576),
        ("qwen3.5-4b", 5_174_964_736, 333_514_240),
        ("qwen3.5-9b", 9_409_813_744, 456_010_480),
        ("qwen3.5-27b", 27_356_728_560, 460_730_096),
        ("qwen3.5-35b-a3b", 35_107_181_936, 446_571_248),
        ("qwen3.5-122b-a10b", 122_562_817_776, 451_290_864),
        ("qwen3.5-397b-a17b", 396_802_360_816, 456_010_480),
    ],
)
def test_models_of_the_registry(name: str, params: int, own: int) -> None:
    model = seeing(name).model_copy(update={"tied_embeddings": False})
    assert (model.params, model.encoder_params) == (params, own)
    assert sees(model)
    assert not sees(load_model(name))
    assert TITAN.builds_encoder(model)


def test_layers_and_merger_are_split_and_all_rows_are_on_each_rank() -> None:
    known = seeing().encoder
    assert known is not None
    hidden, layers, out = known.hidden, len(known.layers), 4096
    products = layers * (4 * hidden**2 + 2 * hidden * 4304) + 4 * hidden * (4 * hidden + out)
    biases = layers * (3 * hidden + 4304) + 4 * hidden
    assert encoder(PLAN, job())["params"] == known.params - (products + biases) / 2
    rows = 8 * 1024
    assert encoder(PLAN, job())["sent"] == 2 * 2 * (2 * layers * rows * hidden + rows / 4 * out) / 2


def test_its_layers_run_again_as_the_others_do() -> None:
    """Each keeps its input, and its forward and two all-reduces come once more before its backward."""
    kept, again = encoder(PLAN, job()), encoder(WHOLE, job())
    rows, hidden, layers = 8 * 1024, 1152, 27
    assert again["kept"] == 2 * rows * hidden * layers
    assert kept["kept"] > 2 * again["kept"]
    assert kept["backward"] < again["backward"] < kept["backward"] + kept["forward"]
    assert again["sent_back"] - kept["sent_back"] == 2 * 2 * 2 * layers * rows * hidden / 2


def test_the_encoder_is_one_unit_of_fsdp() -> None:
    """Its backward holds it gathered, and what it left, or its gradient beside one in fp32 to be reduced."""
    passes = PassBytes(*[0.0] * 9, encoder=10.0, encoder_left=np.array([50.0, 90.0]))
    step = Step(passes, PLAN, SHARDINGS["zero3"], 7.0, 0.0, 4.0, 4.0)
    (moment,) = encoder_moments(step)
    assert list(moment.size) == [7 + 2 * 10 + (2 + 4) * 10, 7 + 2 * 10 + 90]
    assert encoder_moments(replace(step, passes=replace(passes, encoder=0.0))) == ()


@every(
    ("plan", "work", "rule"),
    [
        (WHOLE, {}, ""),
        (replace(WHOLE, pp=2.0, vpp=2.0, dp=4.0, zero_shards=4.0, num_microbatches=16.0, zero=2,
                 schedule="interleaved-1f1b"), {}, ""),
        (replace(WHOLE, cp=2.0, dp=4.0, zero_shards=4.0, num_microbatches=16.0), {}, "delta-sees-whole"),
        (replace(WHOLE, offload="weights"), {}, "vision-on-the-device"),
        (WHOLE, {"freeze_encoder": True}, "vision-is-trained"),
        (WHOLE, {"images": 32}, "vision-images-fit"),
        (replace(WHOLE, recompute="selective"), {}, "delta-recomputed-whole"),
    ],
)  # fmt: skip
def test_what_it_has_not_is_refused_by_name(plan: Plan, work: dict[str, Any], rule: str) -> None:
    found = broken(plan, job(**work))
    assert any(one.startswith(rule) for one in found) if rule else found == set()


def test_its_encoder_before_another_model_is_refused() -> None:
    other = load_model("llama3-8b").model_copy(update={"encoder": seeing().encoder})
    assert "model-in-torchtitan" in broken(replace(PLAN, recompute="none"), job(other))
    square = seeing().model_copy(update={"encoder": seeing().encoder.model_copy(update={"patches": 1000})})  # type: ignore[union-attr]
    assert "vision-images-square" in broken(WHOLE, job(square))


def test_the_encoder_stands_on_the_first_stage() -> None:
    parts = part_names(replace(WHOLE, pp=2.0, dp=4.0), seeing(), "lm_head")
    assert parts is not None
    assert parts[0][:2] == ["vision_encoder", "tok_embeddings"]
    assert "vision_encoder" not in parts[1]


def test_a_plan_with_images_is_read_back(tmp_path: Path) -> None:
    model, out = tmp_path / "model.yaml", tmp_path / "out"
    raw = tmp_path / "config.json"
    raw.write_text(CONFIG, encoding="utf-8")
    assert planner("models", "import", str(raw), "--name", "seeing", "--out", str(model)).code == 0
    layout = ("--runtime", "torchtitan", "--tp", "2", "--zero", "3", "--recompute", "full")
    work = ("--gpus", "16", "--seq-len", "8192", "--global-batch", "64", "--images", "5")
    ask = (str(model), "--hardware", "dgx-h100", *work, *layout, "--sequence-parallel")
    plan = str(tmp_path / "plan.yaml")
    asked = ("estimate", *ask, "--set", "compiled=false", "--save", plan, "--format", "json")
    before = planner(*asked).json
    assert planner("emit", plan, "--out", str(out)).code == 0
    read = planner("estimate", "--from", str(out / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    assert read.code == 0, read.err
    found, asked_for = ((one["step_time_s"], one["memory"]["peak_gib"]) for one in (read.json, before))
    assert found == pytest.approx(asked_for, rel=1e-14)  # sums go by the names of blocks
    text = (out / "titan_plan.py").read_text()
    assert "'images': 5" in text
    assert "The encoder of images is left out" not in (out / "README.md").read_text()


def test_the_registry_s_models_see_images(tmp_path: Path) -> None:
    text = "torchrun --nproc_per_node 8 -m torchtitan.train --module qwen3_5 --config qwen35_4b"
    (tmp_path / "train.sh").write_text(text + "\n", encoding="utf-8")
    found = read_runner_file(tmp_path / "train.sh")
    assert found.model is not None
    assert not found.model.tied_embeddings
    assert found.model.params == 5_174_964_736
    assert found.options["images"] == "1"
    assert any("CC12M" in note for note in found.notes)


CONFIG = """{"model_type": "qwen3_5", "tie_word_embeddings": false, "text_config": {
 "model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 8,
 "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
 "max_position_embeddings": 262144, "hidden_act": "silu", "rms_norm_eps": 1e-6, "initializer_range": 0.02,
 "linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128,
 "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4, "full_attention_interval": 4,
 "tie_word_embeddings": false,
 "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}},
 "vision_config": {"depth": 6, "hidden_size": 768, "num_heads": 12, "intermediate_size": 3072,
 "out_hidden_size": 1024, "num_position_embeddings": 2304, "patch_size": 16, "temporal_patch_size": 2,
 "spatial_merge_size": 2}}"""
