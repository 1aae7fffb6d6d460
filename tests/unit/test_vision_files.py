"""Files of models that see images: the library's own encoder, whole on every rank of the first stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.cost.stages import ENCODER
from planner.errors import UnsupportedPlan
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.vision_configs import vision_config, vision_family
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes._family import Job, Runtime
from tests.cli.command import planner

BRIDGE, CORE = runtimes()["megatron-bridge"], runtimes()["megatron-lm"]
PLAN = Plan(
    tp=2.0, dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=8.0, sequence_parallel=True
)


def job(name: str = "qwen2.5-vl-7b", **work: Any) -> Job:
    fields = {"seq_len": 4096, "global_batch": 64, "images": 4} | work
    return Job(load_model(name), load_hardware("dgx-h100"), 16, Workload(**fields))


def encoder(plan: Plan, asked: Job, runtime: Runtime) -> tuple[float, float, float]:
    """Return seconds forward, weights and messages of the encoder on a rank."""
    pricer = Pricer(case_of(plan, asked, runtime), plan)
    layer = priced_layer(pricer, ENCODER)
    seconds, weights = (float(total(layer.operators, field)) for field in ("forward", "params"))
    return seconds, weights, float(layer.exchanges.tp.forward_sent)


def test_the_library_s_encoder_is_whole_on_every_tensor_rank() -> None:
    asked = job()
    alone = replace(PLAN, tp=1.0, dp=16.0, zero_shards=16.0, num_microbatches=4.0, sequence_parallel=False)
    known = asked.model.encoder
    assert known is not None
    assert encoder(PLAN, asked, BRIDGE) == encoder(alone, asked, BRIDGE)
    assert encoder(PLAN, asked, BRIDGE)[1:] == (known.params, 0.0)
    seconds, weights, sent = encoder(PLAN, asked, CORE)
    assert weights < known.params
    assert seconds < encoder(PLAN, asked, BRIDGE)[0]
    assert sent > 0


def test_an_encoder_is_known_by_what_it_is_built_of() -> None:
    model = job().model
    known = model.encoder
    assert known is not None
    assert vision_family(known, model.hidden) == "qwen2_5_vl"
    assert vision_config(known, "qwen2_5_vl")["fullatt_block_indexes"] == [7, 15, 23, 31]
    other = known.model_copy(update={"norm_bias": True})
    assert vision_family(other, model.hidden) == ""
    assert not BRIDGE.builds_encoder(model.model_copy(update={"encoder": other}))
    assert not CORE.builds_encoder(model)


@pytest.mark.parametrize(
    ("plan", "work", "rule"),
    [
        (PLAN, {"precision": "fp8"}, "vision-in-16-bit"),
        (replace(PLAN, zero=3), {}, "vision-without-fsdp"),
        (PLAN, {"method": "lora"}, "vision-trains-whole"),
        (replace(PLAN, cp=2.0, dp=4.0), {}, "encoder-sees-whole-images"),
    ],
)
def test_what_the_files_cannot_say_is_refused(plan: Plan, work: dict[str, Any], rule: str) -> None:
    assert not violations(all_rules(PLAN, case_of(PLAN, job(), BRIDGE)))
    assert rule in {one.rule for one in violations(all_rules(plan, case_of(plan, job(**work), BRIDGE)))}


@pytest.mark.parametrize("frozen", [False, True])
def test_files_are_read_back_as_priced(tmp_path: Path, frozen: bool) -> None:
    asked = job(freeze_encoder=frozen, images=3)
    target = Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0])
    files = launch_files(PLAN, asked, target, Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    assert "vlm_step import forward_step" in files["train.py"]
    assert "num_images=3" in files["train.py"]
    assert f"freeze_vision_model={frozen}" in files["train.py"]
    assert "DATA_PATH TOKENIZER_PATH" not in files["train.sh"]
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    told = planner("estimate", *said)
    assert told.code == 0, told.err
    assert told.json["step_time_s"] == pytest.approx(float(estimate(PLAN, asked, BRIDGE).step), rel=1e-6)
    assert told.json["model"]["name"] == "qwen2.5-vl-7b"


def test_other_encoders_have_no_files() -> None:
    text = {
        "model_type": "qwen3_vl_text", "hidden_size": 4096, "intermediate_size": 22016,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
        "vocab_size": 151936, "hidden_act": "silu",
    }  # fmt: skip
    raw = {"model_type": "qwen3_vl", "text_config": text, "vision_config": {"out_hidden_size": 4096}}
    asked = replace(job(), model=model_from_config(raw, "config.json", "qwen3-vl").model)
    target = Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0])
    with pytest.raises(UnsupportedPlan, match="without the encoder"):
        launch_files(PLAN, asked, target, Card())
