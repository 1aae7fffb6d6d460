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
from planner.errors import InputError, UnsupportedPlan
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.vision_configs import vision_config, vision_family, with_encoder
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.question.usual import runtimes_for
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.megatron_bridge.vision import family_of
from tests.cases import every
from tests.cli.command import planner

BRIDGE, CORE = runtimes()["megatron-bridge"], runtimes()["megatron-lm"]
PLAN = Plan(
    tp=2.0, dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=8.0, sequence_parallel=True
)


TEXT = {
    "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "rope_theta": 5000000, "max_position_embeddings": 262144, "initializer_range": 0.02,
}  # fmt: skip


def qwen3_vl(sparse: bool = False) -> ModelSpec:
    """Qwen3-VL-8B, or -30B-A3B."""
    return load_model("qwen3-vl-30b-a3b" if sparse else "qwen3-vl-8b")


def job(name: str = "qwen2.5-vl-7b", model: ModelSpec | None = None, **work: Any) -> Job:
    fields = {"seq_len": 4096, "global_batch": 64, "images": 4} | work
    return Job(model or load_model(name), load_hardware("dgx-h100"), 16, Workload(**fields))


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


def test_megatron_s_own_encoder_is_split_with_its_projectors() -> None:
    """Qwen3-VL: layers and mergers over tensor-parallel ranks, patches, positions and norms whole."""
    asked = job(model=qwen3_vl())
    known = asked.model.encoder
    assert known is not None
    assert known.params == 576_388_336
    assert known.handed == (8, 16, 24)
    hidden, layers, out = known.hidden, len(known.layers), asked.model.hidden
    products = layers * (4 * hidden**2 + 2 * hidden * 4304) + 4 * (4 * hidden * (4 * hidden + out))
    biases = layers * (3 * hidden + 4304) + 4 * 4 * hidden
    assert encoder(PLAN, asked, BRIDGE)[1] == known.params - (products + biases) / 2
    alone = replace(PLAN, tp=1.0, dp=16.0, zero_shards=16.0, num_microbatches=4.0, sequence_parallel=False)
    assert encoder(PLAN, asked, BRIDGE)[0] < encoder(alone, asked, BRIDGE)[0]
    rows = 4 * 1024
    layered, merged = 2 * layers * rows * hidden, 4 * (rows / 4) * out
    assert encoder(PLAN, asked, BRIDGE)[2] == 2 * 2 * (layered + merged) / 2


@every(
    ("plan", "work", "rule"),
    [
        (replace(PLAN, recompute="selective"), {}, "vision-not-recomputed"),
        (replace(PLAN, recompute="full"), {}, ""),
        (replace(PLAN, recompute="selective"), {"freeze_encoder": True}, ""),
        (replace(PLAN, pp=2.0, vpp=2.0, dp=4.0, schedule="interleaved-1f1b"), {}, "vision-without-virtual"),
    ],
)
def test_rules_of_megatron_s_own_encoder(plan: Plan, work: dict[str, Any], rule: str) -> None:
    asked = job(model=qwen3_vl(), **work)
    found = " ".join(one.rule for one in violations(all_rules(plan, case_of(plan, asked, BRIDGE))))
    assert ("vision" in found) == bool(rule)
    assert rule in found


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


@every(
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
@pytest.mark.parametrize(
    "kind", ["qwen2.5-vl-7b", "qwen3-vl-8b", "qwen3-vl-30b-a3b", "ministral-3-3b", "ministral-3-14b"]
)
def test_files_are_read_back_as_priced(tmp_path: Path, kind: str, frozen: bool) -> None:
    """Projectors learn behind a frozen encoder, but for models with experts."""
    learns = frozen and not kind.endswith("a3b")
    plan = replace(PLAN, ep=8.0) if kind.endswith("a3b") else PLAN
    asked = job(kind, freeze_encoder=frozen, train_projector=learns, images=3)
    target = Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0])
    files = launch_files(plan, asked, target, Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    step = "qwen3_vl_step" if kind.startswith("qwen3") else "vlm_step"
    assert f"{step} import forward_step" in files["train.py"]
    assert "num_images=3" in files["train.py"]
    assert f"freeze_vision_model={frozen}" in files["train.py"]
    assert f"freeze_vision_projection={frozen and not learns}" in files["train.py"]
    assert ("pretrained_checkpoint=CHECKPOINT" in files["train.py"]) is frozen
    assert "DATA_PATH TOKENIZER_PATH" not in files["train.sh"]
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    told = planner("estimate", *said)
    assert told.code == 0, told.err
    assert told.json["step_time_s"] == pytest.approx(float(estimate(plan, asked, BRIDGE).step), rel=1e-6)
    assert told.json["model"]["name"] == kind


@pytest.mark.parametrize("kind", ["qwen2.5-vl-7b", "qwen3-vl-8b", "qwen3-vl-30b-a3b", "ministral-3-3b"])
def test_projectors_alone_are_read_back_as_priced(tmp_path: Path, kind: str) -> None:
    """Weights of the rest start from a checkpoint, as those beside adapters do."""
    plan = replace(PLAN, recompute="none", ep=8.0 if kind.endswith("a3b") else 1.0)
    asked = job(kind, method="projector", images=3)
    assert not violations(all_rules(plan, case_of(plan, asked, BRIDGE)))
    files = launch_files(plan, asked, Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0]), Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    parts = {"language_model": True, "vision_model": True, "vision_projection": False}
    assert all(f"freeze_{part}={frozen}" in files["train.py"] for part, frozen in parts.items())
    assert "pretrained_checkpoint=CHECKPOINT" in files["train.py"]
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    told = planner("estimate", *said)
    assert told.code == 0, told.err
    answer = estimate(plan, asked, BRIDGE)
    assert told.json["step_time_s"] == pytest.approx(float(answer.step), rel=1e-6)
    encoder = asked.model.encoder
    assert encoder is not None
    learned = sum(one.params for one in encoder.projectors) / (plan.tp if "qwen3" in kind else 1.0)
    first, *others = answer.stages
    assert first.gradients == pytest.approx(4.0 * learned, rel=1e-3)
    assert all(stage.gradients == stage.optimizer == 0.0 for stage in others)


@every(
    ("old", "new", "field"),
    [
        ("freeze_language_model=False", "freeze_language_model=True", "freeze_language_model"),
        ("        freeze_language_model=False,\n", "", "freeze_language_model"),
        ("freeze_vision_projection=False", "freeze_vision_projection=True", "freeze_vision_projection"),
    ],
)
def test_what_a_file_freezes_without_a_price_is_refused(
    tmp_path: Path, old: str, new: str, field: str
) -> None:
    """A language model alone, which one with experts has frozen unless told, and a projector alone."""
    plan, asked = replace(PLAN, ep=8.0), job("qwen3-vl-30b-a3b", images=3)
    files = launch_files(plan, asked, Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0]), Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    text = files["train.py"]
    assert text.count(old) == 1
    (tmp_path / "train.py").write_text(text.replace(old, new), "utf-8")
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    told = planner("estimate", *said)
    assert told.code == 2
    assert f"model.{field}: found True" in told.err


def test_projectors_of_inner_layers_learn_outside_of_recompute_alone() -> None:
    """``_checkpointed_forward`` of Qwen3-VL: a frozen layer's checkpoint hands on no gradient."""
    for kind, plan, told in (
        ("qwen3-vl-8b", replace(PLAN, recompute="full"), {"vision-projectors-outside-recompute"}),
        ("qwen3-vl-8b", replace(PLAN, recompute="none"), set()),
        ("qwen2.5-vl-7b", replace(PLAN, recompute="full"), set()),
    ):
        asked = job(kind, freeze_encoder=True, train_projector=True)
        found = {one.rule for one in violations(all_rules(plan, case_of(plan, asked, BRIDGE)))}
        assert found == told


@pytest.mark.parametrize("kind", ["qwen3.5-9b", "qwen3.5-35b-a3b"])
def test_qwen35_with_images_is_read_back_as_priced(tmp_path: Path, kind: str) -> None:
    """Its language model's layers are gated delta nets; its class is told its virtual stage."""
    model = with_encoder(load_model(kind))
    plan = replace(
        PLAN, pp=2.0, vpp=2.0, tp=1.0, dp=8.0, schedule="interleaved-1f1b", sequence_parallel=False
    )
    plan = replace(plan, ep=8.0) if model.expert_kinds else plan
    asked = job(model=model, freeze_encoder=True, images=3)
    assert family_of(model) == "qwen3_5"
    assert not violations(all_rules(plan, case_of(plan, asked, BRIDGE)))
    files = launch_files(plan, asked, Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0]), Card())
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    provider = "Qwen35VLMoEModelProvider" if model.expert_kinds else "Qwen35VLModelProvider"
    assert f"models.qwen_vl.qwen35_vl_provider import {provider}\n" in files["train.py"]
    assert "mrope_section=[11, 11, 10]" in files["train.py"]
    said = ("--from", str(tmp_path / "train.sh"), "--hardware", "dgx-h100", "--format", "json")
    told = planner("estimate", *said)
    assert told.code in (0, 1), told.err  # 1: it needs more memory than there is
    assert told.json["step_time_s"] == pytest.approx(float(estimate(plan, asked, BRIDGE).step), rel=1e-6)
    alone = load_model("llama3-8b").model_copy(update={"encoder": model.encoder})
    assert family_of(alone) == ""
    other = model.model_copy(update={"encoder": load_model("qwen3-vl-8b").encoder})
    assert family_of(other) == ""


def test_ministral_s_attention_sees_whole_sequences_and_queries_that_grow() -> None:
    """Each rank of a split sequence would count positions from its own first token."""
    asked = job("ministral-3-8b")
    runtime = BRIDGE.for_model(asked.model)
    split = replace(PLAN, cp=2.0, dp=4.0, zero_shards=8.0, num_microbatches=16.0)
    told = {one.rule for one in violations(all_rules(split, case_of(split, asked, runtime)))}
    assert told == {"own-layers-whole-sequence", "encoder-sees-whole-images"}
    assert not violations(all_rules(PLAN, case_of(PLAN, asked, runtime)))
    plain = asked.model.model_copy(update={"variants": ()})
    assert family_of(asked.model) == "mistral3"
    assert family_of(plain) == ""


def test_other_encoders_have_no_files() -> None:
    text = TEXT | {"model_type": "llama"}
    raw = {"model_type": "llava", "text_config": text, "vision_config": {"model_type": "clip_vision_model"}}
    asked = job(model=model_from_config(raw, "config.json", "llava").model)
    assert asked.model.encoder is not None
    target = Target(BRIDGE, launchers()["torchrun"], BRIDGE.versions[0])
    with pytest.raises(UnsupportedPlan, match="without the encoder"):
        launch_files(PLAN, asked, target, Card())


def test_layers_whose_results_are_handed_over_are_in_the_yaml(tmp_path: Path) -> None:
    model = qwen3_vl()
    path = tmp_path / "qwen3-vl.yaml"
    path.write_text(model_yaml(model), "utf-8")
    assert load_model(str(path)) == model
    broken = path.read_text("utf-8").replace("handed: [8, 16, 24]", "handed: [8, 16, 27]")
    path.write_text(broken, "utf-8")
    with pytest.raises(InputError, match="layers before 27 in handed"):
        load_model(str(path))


def test_a_runtime_that_builds_the_encoder_goes_before_the_usual_one() -> None:
    work, cluster = Workload(seq_len=4096, global_batch=64), load_hardware("dgx-h100")
    assert runtimes_for(qwen3_vl(), work, cluster) == ("megatron-bridge",)
    assert runtimes_for(load_model("llama3-8b"), work, cluster) == ("megatron-lm",)


def test_one_that_does_not_names_it() -> None:
    asked = Job(qwen3_vl(), load_hardware("dgx-h100"), 16, Workload(seq_len=4096, global_batch=64))
    with pytest.raises(UnsupportedPlan, match="nearest: --runtime megatron-bridge or the model of"):
        launch_files(PLAN, asked, Target(CORE, launchers()["torchrun"], CORE.versions[0]), Card())
