"""Models with an encoder of images: import, price, memory, rules, and what no file can say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.flops import encoder_flops, job_flops
from planner.cost.kinds import unmeasured_kinds
from planner.cost.layer.attention_core import mean_keys
from planner.cost.layer.encoders import encoder_piece
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.legal import all_rules, encoder_rules
from planner.errors import InputError, UnsupportedPlan
from planner.inputs import hf_towers
from planner.inputs.hf_config import model_from_config, without_encoder
from planner.inputs.hf_vision import LEFT_OUT
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.vision_configs import vision_family
from planner.inputs.workload import Workload
from planner.launchers import Card, Target, launch_files, launchers
from planner.plan import Plan
from planner.report.model_facts import part_rows
from planner.report.waterfall import Anatomy, waterfall
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.optimise import search
from planner.search.request import SearchRequest
from tests.cases import every
from tests.cli.command import planner
from tests.helpers import ROOT

MEGATRON = runtimes()["megatron-lm"]
SILU = {"hidden_act": "silu"}
LARGE = SILU | {
    "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "vocab_size": 152064,
}  # fmt: skip
FACTS: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "qwen2_vl": (LARGE | {"model_type": "qwen2_vl_text"}, {"hidden_size": 3584}, 73_381_962_752),
    "qwen2_5_vl": (LARGE | {"model_type": "qwen2_5_vl_text"}, {}, 75_789_228_800),
    "qwen3_vl": (
        SILU
        | {
            "model_type": "qwen3_vl_text", "hidden_size": 4096, "intermediate_size": 22016,
            "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
            "vocab_size": 151936,
        },
        {"out_hidden_size": 3584},
        12_616_410_352,
    ),
    "llava": (
        SILU
        | {
            "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "vocab_size": 32000,
        },
        {"model_type": "clip_vision_model"},
        7_062_902_784,
    ),
    "gemma3": (
        {
            "model_type": "gemma3_text", "hidden_size": 2304, "intermediate_size": 9216,
            "num_hidden_layers": 26, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
            "vocab_size": 262208,
        },
        {
            "model_type": "siglip_vision_model", "vision_use_head": False, "hidden_size": 768,
            "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 12,
            "image_size": 224, "patch_size": 16,
        },
        2_716_225_792,
    ),
}  # fmt: skip
"""Text and vision configs, and the parameters of the classes of transformers 5.23 on meta tensors, without
the pooling head of SigLIP, which Gemma 3 does not have."""


VOXTRAL = {
    "model_type": "voxtral", "audio_config": {"model_type": "voxtral_encoder"},
    "text_config": SILU
    | {
        "model_type": "llama", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 30,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072,
    },
}  # fmt: skip


def job(images: int = 1, freeze: bool = False, name: str = "qwen2.5-vl-7b", **work: Any) -> Job:
    fields = {"seq_len": 4096, "global_batch": 64, "images": images, "freeze_encoder": freeze} | work
    return Job(load_model(name), load_hardware("dgx-h100"), 16, Workload(**fields))


PIPED = Plan(tp=2, pp=2, dp=4, num_microbatches=16, zero=1, zero_shards=4, sequence_parallel=True)
FLAT = Plan(tp=2, dp=8, num_microbatches=8, zero=1, zero_shards=8, sequence_parallel=True)


def priced(task: Job, plan: Plan = FLAT) -> Estimate:
    return estimate(plan, task, MEGATRON)


@every("kind", FACTS)
def test_an_imported_encoder_has_the_parameters_of_the_authors_code(kind: str) -> None:
    text, vision, params = FACTS[kind]
    raw = {"model_type": kind, "text_config": text, "vision_config": vision}
    if kind == "gemma3":
        raw |= {"tie_word_embeddings": True}
    found = model_from_config(raw | {"tie_word_embeddings": kind == "gemma3"}, "config.json", kind)
    assert found.model.params == params
    assert found.model.encoder is not None
    assert not any("left out" in note for note in found.notes)


def test_the_zoo_model_has_the_parameters_of_its_class() -> None:
    """Transformers 5.23, Qwen2_5_VLForConditionalGeneration on meta tensors."""
    model = load_model("Qwen/Qwen2.5-VL-7B-Instruct")
    assert (model.params, model.encoder_params) == (8_292_166_656, 676_550_144)


def test_what_is_not_expressed_is_left_out_and_told() -> None:
    text, _, _ = FACTS["gemma3"]
    raw = {"model_type": "gemma3", "text_config": text, "vision_config": {}, "tie_word_embeddings": True}
    found = model_from_config(raw, "config.json", "x")
    assert found.model.encoder is None
    assert any("left out" in note for note in found.notes)


def test_a_broken_encoder_is_a_fault_at_its_key() -> None:
    text, vision, _ = FACTS["qwen3_vl"]
    raw = {"model_type": "qwen3_vl", "text_config": text, "vision_config": vision | {"depth": "x"}}
    with pytest.raises(InputError, match=r"vision_config\.depth"):
        model_from_config(raw | {"tie_word_embeddings": False}, "config.json", "x")


@every("kind", FACTS)
def test_a_key_of_an_encoder_that_is_one_letter_off_is_no_default_in_silence(kind: str) -> None:
    text, vision, _ = FACTS[kind]
    raw = {"model_type": kind, "text_config": text, "tie_word_embeddings": kind == "gemma3"}
    for key in (key for key in vision if len(key) > 8 and type(vision[key]) is int):
        broken = {one: said for one, said in vision.items() if one != key} | {key[:-1]: 2 * vision[key]}
        with pytest.raises(InputError, match=rf"vision_config\.{key[:-1]}: .*; expected {key}"):
            model_from_config({**raw, "vision_config": broken}, "c", "m")


SMALL = json.loads((ROOT / "tests" / "unit" / "data" / "hf_small_encoders.json").read_text())["cases"]


@every("case", SMALL, ids=lambda case: case["config"]["model_type"])
def test_encoders_have_the_parameters_of_the_modelling_code(case: dict[str, Any]) -> None:
    """With keys beyond the defaults: biases, ratios, sides as lists; and no runner takes it for another's."""
    kind = case["config"]["model_type"]
    model = model_from_config(case["config"], "config.json", "m").model
    assert model.encoder is not None
    assert (model.params, model.encoder_params) == (case["params"], case["encoder"])
    assert vision_family(model.encoder, model.hidden) == (kind if kind == "qwen3_5" else "")


def test_every_reader_of_an_encoder_is_compared() -> None:
    read = {hf_towers.READERS[case["config"]["model_type"]] for case in SMALL}
    assert read == set(hf_towers.READERS.values())


def test_sound_is_encoded_in_clips_of_frames() -> None:
    """Voxtral by hand: 3,000 steps of 128 bands, every other kept, 32 layers over 1,500, 4 rows a token."""
    found = model_from_config(VOXTRAL, "config.json", "voxtral")
    model, wide, rows = found.model, 1280, 1500
    assert any("clips of 30 seconds" in note for note in found.notes)
    asked = job(images=2, global_batch=1)
    products = 2 * rows * 3 * 128 * wide + rows * 3 * wide * wide
    layer = rows * (4 * wide * wide + 2 * wide * 5120) + 2 * rows * rows * wide
    handed = rows / 4 * (5120 * 3072 + 3072 * 3072)
    hand = 2 * 3 * 2 * (products + 32 * layer + handed)
    assert encoder_flops(replace(asked, model=model)) == pytest.approx(hand)


def test_the_language_model_alone_is_had_for_the_asking() -> None:
    alone = without_encoder(model_from_config(VOXTRAL, "config.json", "voxtral"))
    assert alone.model.encoder is None
    assert alone.model.params == 4_676_271_104 - 662_134_784
    assert [note for note in alone.notes if "encoder" in note or "sound" in note] == [LEFT_OUT]
    assert alone.notes[0] in alone.model.note


def test_an_encoder_sees_all_keys_and_a_decoder_half() -> None:
    assert mean_keys(1024.0, None, False, causal=False) == 1024.0
    assert mean_keys(4096.0, None, False, 1024.0, causal=False) == 1024.0
    assert mean_keys(1024.0, 64, True, causal=False) == 64.0
    assert mean_keys(1024.0, None, False) == 512.0


def test_flops_of_an_encoder_are_those_of_its_products_and_scores() -> None:
    """By hand from Qwen2.5-VL's code: 32 layers, of which 4 see 1,024 patches and 28 windows of 64."""
    hidden, inner, patches, images = 1280, 3420, 1024, 64
    layer = 4 * hidden * hidden + 3 * hidden * inner
    products = 32 * layer + 1176 * hidden
    scores = 2 * hidden * (4 * 1024 + 28 * 64)
    merger = 5120 * 5120 + 5120 * 3584
    total = 6 * images * (patches * (products + scores) + patches / 4 * merger)
    assert encoder_flops(job()) == pytest.approx(total, rel=1e-12)
    assert encoder_flops(job(freeze=True)) == pytest.approx(total / 3, rel=1e-12)
    assert encoder_flops(job(images=3)) == pytest.approx(3 * total, rel=1e-12)
    assert job_flops(job()) - encoder_flops(job()) == pytest.approx(job_flops(job(name="qwen2.5-7b")))


def test_an_encoder_takes_time_and_memory_on_the_first_stage_alone() -> None:
    alone, one, many = (priced(task, PIPED) for task in (job(name="qwen2.5-7b"), job(), job(images=8)))
    assert alone.step <= one.step < many.step
    assert one.stages[1].total == alone.stages[1].total
    assert alone.stages[0].total < one.stages[0].total < many.stages[0].total
    weights = one.stages[0].weights - alone.stages[0].weights
    encoder = load_model("qwen2.5-vl-7b").encoder_params
    assert encoder < weights < 2 * encoder, "layers over two tensor ranks, stem and projector whole on each"


def test_a_frozen_encoder_costs_forward_alone_and_keeps_nothing() -> None:
    alone, trained, frozen = (priced(task) for task in (job(name="qwen2.5-7b"), job(8), job(8, True)))
    share = (frozen.step - alone.step) / (trained.step - alone.step)
    assert 0.25 < share < 0.45
    assert frozen.stages[0].activations == pytest.approx(alone.stages[0].activations)
    assert frozen.stages[0].optimizer == alone.stages[0].optimizer
    assert frozen.stages[0].gradients == alone.stages[0].gradients
    assert trained.stages[0].optimizer > alone.stages[0].optimizer


@every(("name", "rows"), [("qwen2.5-vl-7b", 256), ("llava-1.5-7b", 577)])
def test_a_projector_that_learns_behind_a_frozen_encoder_has_all_that_training_needs(
    name: str, rows: int
) -> None:
    """Its gradients and states, what its products keep, three products each; LLaVA's first makes two.

    Qwen2.5-VL's products stand behind a norm that learns, LLaVA's have none before them.
    """
    plan = replace(FLAT, tp=1.0, dp=16.0, zero_shards=16.0, num_microbatches=4.0, sequence_parallel=False)
    work = {"name": name, "images": 4}
    frozen, learns = job(freeze=True, **work), job(freeze=True, train_projector=True, **work)
    encoder = load_model(name).encoder
    assert encoder is not None
    parts = [one.params for one in encoder.projectors]
    before, after = priced(frozen, plan).stages[0], priced(learns, plan).stages[0]
    assert after.gradients - before.gradients == pytest.approx(4 * sum(parts))
    assert after.weights == before.weights
    assert after.optimizer - before.optimizer == pytest.approx(12 * sum(parts) / 16, rel=0.01)
    inputs = sum(2 * linear.inputs for one in encoder.projectors for linear in one.linears)
    assert after.activations - before.activations == pytest.approx(4 * rows * inputs)
    more = encoder_flops(learns) - encoder_flops(frozen)
    products = sum(linear.inputs * linear.outputs for one in encoder.projectors for linear in one.linears)
    assert more == pytest.approx(4 * 64 * 4 * rows * products)
    assert priced(frozen, plan).step < priced(learns, plan).step < priced(job(**work), plan).step

    def pieces(task: Job) -> dict[str, Operator]:
        found = encoder_piece(Pricer(case_of(plan, task, MEGATRON), plan), encoder)[0]
        return {one.name: one for one in found}

    one, other, whole = pieces(frozen), pieces(learns), pieces(job(**work))
    for key, product in other.items():
        if not key.startswith("project"):
            assert product == one[key], "the encoder itself is as frozen as before"
        elif key == "project_0" and name.startswith("llava"):
            assert product.backward == whole[key].weight_gradient > 0.0, "no gradient of its rows"
        else:
            assert product == whole[key]


def test_projectors_alone_cost_less_than_beside_a_language_model_that_learns() -> None:
    """Forward, and back through the language model to them: no weight gradient, gradient or state of it."""
    whole, alone = (
        job(8, freeze=True, **work) for work in ({"train_projector": True}, {"method": "projector"})
    )
    one, other = priced(whole, PIPED), priced(alone, PIPED)
    assert 0.6 < other.step / one.step < 0.8
    first, last = other.stages
    encoder = load_model("qwen2.5-vl-7b").encoder
    assert encoder is not None
    assert first.gradients == pytest.approx(4.0 * sum(one.params for one in encoder.projectors))
    assert last.gradients == last.optimizer == 0.0
    assert last.weights == pytest.approx(one.stages[1].weights)
    assert last.activations < one.stages[1].activations
    task = job(name="qwen2.5-7b", method="projector")
    names = {fault.rule for fault in violations(encoder_rules(FLAT, case_of(FLAT, task, MEGATRON)))}
    assert names == {"projectors-are-there"}


def test_projectors_learn_behind_a_frozen_encoder_and_beside_whole_training_alone() -> None:
    ask = ("estimate", "qwen2.5-vl-7b", "--hardware", "8xh100", "--train-projector", "--format", "json")
    wrong = planner(*ask)
    assert wrong.code == 2
    assert "--freeze-encoder" in wrong.err
    task = job(freeze=True, train_projector=True, method="lora")
    names = {fault.rule for fault in violations(encoder_rules(FLAT, case_of(FLAT, task, MEGATRON)))}
    assert names == {"projector-beside-whole-training"}


def test_activations_of_an_encoder_wait_for_every_micro_batch_in_flight() -> None:
    def kept(passes: float) -> float:
        task = job(8, global_batch=int(passes * 4))
        bare = job(name="qwen2.5-7b", global_batch=int(passes * 4))
        plan = replace(PIPED, num_microbatches=passes)
        return priced(task, plan).stages[0].activations - priced(bare, plan).stages[0].activations

    assert kept(16.0) == pytest.approx(2 * kept(1.0), rel=1e-9)


@every(
    ("changes", "rule"),
    [
        ({"tp": 1.0, "cp": 2.0, "zero_shards": 16.0}, "encoder-sees-whole-images"),
        ({"schedule": "dualpipe-v", "pp": 2.0, "dp": 4.0, "vpp": 2.0, "zero_shards": 4.0}, None),
        ({"schedule": "dualpipe", "pp": 2.0, "dp": 4.0, "zero_shards": 4.0}, "encoder-on-one-stage"),
    ],
)
def test_rules_of_an_encoder(changes: dict[str, Any], rule: str | None) -> None:
    plan = replace(FLAT, **changes)
    names = {fault.rule for fault in violations(encoder_rules(plan, case_of(plan, job(), MEGATRON)))}
    assert names == ({rule} if rule else set())


@every("runtime", ["megatron-lm", "megatron-bridge", "fsdp", "deepspeed", "torchtitan"])
def test_a_sequence_holds_the_tokens_of_its_images_in_every_runtime(runtime: str) -> None:
    """1,024 patches of which four are one token: 16 images fill 4,096 tokens."""

    def told(images: int, **work: Any) -> list[tuple[str, str]]:
        task = job(images, **work)
        rules = all_rules(FLAT, case_of(FLAT, task, runtimes()[runtime]))
        return [(one.found, one.nearest) for one in violations(rules) if one.rule == "images-fit-sequence"]

    assert told(16) == []
    assert told(17, seq_len=4352) == []
    assert told(17) == [("17 x 256 tokens of images in a sequence of 4096", "--images 16 or --seq-len 4352")]
    ((found, nearest),) = told(1, seq_len=250)
    assert (found, nearest) == ("1 x 256 tokens of images in a sequence of 250", "--seq-len 256")
    assert told(8, name="qwen2.5-7b", seq_len=64) == []


def test_what_is_told_of_a_model_and_a_step_adds_up_with_an_encoder() -> None:
    """A frozen encoder's products run once: counted three times they were more than their own seconds."""
    model = load_model("qwen2.5-vl-7b")
    assert sum(row["params"] for row in part_rows(model)) == model.params
    for task in (job(8), job(8, freeze=True)):
        answer = priced(task)
        parts = {part.name: part.seconds for part in waterfall(Anatomy(answer))}
        assert sum(parts.values()) == pytest.approx(answer.step)
        assert parts["grouped"] > 0.0


def test_no_files_are_written_for_an_encoder_and_its_price_is_unproven() -> None:
    target = Target(MEGATRON, launchers()["torchrun"], MEGATRON.versions[0])
    with pytest.raises(UnsupportedPlan, match="without the encoder"):
        launch_files(FLAT, job(), target, Card())
    assert "an encoder of images" in unmeasured_kinds(FLAT, job(), MEGATRON)
    assert "an encoder of images" not in unmeasured_kinds(FLAT, job(name="qwen2.5-7b"), MEGATRON)


def test_a_search_gives_the_stage_of_a_heavy_encoder_fewer_layers() -> None:
    task = job(images=16)
    request = SearchRequest(
        task.model, (task.hardware,), (16,), task.workload, (MEGATRON,), top=1,
        fixed={"tp": 2, "pp": 2, "vpp": 1, "micro_batch": 1, "zero": 1},
    )  # fmt: skip
    best = search(request).plans[0].plan
    assert best.stage_layers is not None
    assert best.stage_layers[0] < best.stage_layers[1]
    even = estimate(replace(best, stage_layers=(14, 14)), task, MEGATRON)
    assert search(request).plans[0].step < even.step
