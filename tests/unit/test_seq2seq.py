"""Encoder-decoders: T5, BART, their kin and Whisper are read, counted, priced by hand, written, refused."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.flops import job_flops
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.legal import all_rules
from planner.cost.memory.padding import block_parameters
from planner.cost.stages import ENCODER
from planner.errors import InputError, UnsupportedPlan
from planner.inputs.hf_config import ImportedModel, model_from_config, without_encoder
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.hub.config import architecture, hub_config, unwritten
from planner.runtimes.libraries import libraries
from tests.cases import every
from tests.cli.command import planner
from tests.unit import runner_jobs as jobs

SIDES = {
    f"{side}_{key}": size
    for side in ("encoder", "decoder")
    for key, size in (("layers", 12), ("attention_heads", 16), ("ffn_dim", 4096))
}
SAID: dict[str, dict[str, Any]] = {
    "bart": {"d_model": 1024, "vocab_size": 50265, "max_position_embeddings": 1024, **SIDES},
    "mbart": {"d_model": 1024, "vocab_size": 250027, "max_position_embeddings": 1024, **SIDES,
              "scale_embedding": True},
    "marian": {"d_model": 512, "vocab_size": 58101, "decoder_vocab_size": 58101,
               "max_position_embeddings": 512, "activation_function": "swish", "scale_embedding": True,
               **{key: 6 if "layers" in key else size // 2 for key, size in SIDES.items()}},
    "pegasus": {"d_model": 1024, "vocab_size": 96103, "max_position_embeddings": 512, "scale_embedding": True,
                "activation_function": "relu", **SIDES, "encoder_layers": 16, "decoder_layers": 16},
    "m2m_100": {"d_model": 1024, "vocab_size": 128112, "max_position_embeddings": 1024, **SIDES},
    "t5": {"d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 24, "num_heads": 16,
           "vocab_size": 32128, "n_positions": 512},
    "mt5": {"d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "vocab_size": 250112,
            "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "whisper": {"d_model": 1280, "vocab_size": 51866, "num_mel_bins": 128, "decoder_layers": 4,
                "encoder_layers": 32, "encoder_attention_heads": 20, "decoder_attention_heads": 20,
                "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120},
}  # fmt: skip
PARAMS = {
    "bart": 406_291_456, "mbart": 610_851_840, "marian": 74_410_496, "pegasus": 569_748_480,
    "m2m_100": 483_905_536, "t5": 737_668_096, "mt5": 172_119_424, "whisper": 808_878_080,
}  # fmt: skip
"""Parameters of these in transformers 5.23, on meta tensors; `tests/torch/test_import_all.py` asks again."""

TEXT = ("bart", "mbart", "t5")


def read(kind: str, **more: Any) -> ModelSpec:
    return model_from_config({"model_type": kind, **SAID[kind], **more}, "config.json", kind).model


def task(model: ModelSpec, **work: Any) -> Any:
    return jobs.job(model, 8, **({"seq_len": 256, "global_batch": 64} | work))


@every("kind", SAID)
def test_a_key_that_is_one_letter_off_is_no_default_in_silence(kind: str) -> None:
    for key in (key for key in SAID[kind] if len(key) > 8):
        raw = {one: said for one, said in SAID[kind].items() if one != key}
        with pytest.raises(InputError, match=f"c: {key[:-1]}: found no key that is read; expected {key}"):
            model_from_config({**raw, "model_type": kind, key[:-1]: 2 * 10**3}, "c", "m")


@every("kind", SAID)
def test_parameters_are_those_of_the_library(kind: str) -> None:
    model = read(kind)
    assert model.crosses
    assert model.params == PARAMS[kind]


@every(
    ("kind", "tied", "scaled"),
    [("t5", True, True), ("t5", False, False), ("mt5", True, False), ("umt5", False, True)],
)
def test_the_input_of_the_head_is_scaled_as_the_code_does(kind: str, tied: bool, scaled: bool) -> None:
    model = model_from_config({"model_type": kind, "tie_word_embeddings": tied}, "config.json", kind).model
    assert model.tied_embeddings
    assert model.numerics.logit_scale == (pytest.approx(512**-0.5) if scaled else None)


def test_flan_t5_has_a_head_of_its_own_once_its_weights_are_loaded() -> None:
    """huggingface.co/google/flan-t5-base: 248M parameters; the class alone makes 223M."""
    said = {
        "d_model": 768, "d_ff": 2048, "d_kv": 64, "num_heads": 12, "num_layers": 12, "vocab_size": 32128,
        "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False,
    }  # fmt: skip
    found = model_from_config({"model_type": "t5", **said}, "config.json", "flan")
    more = found.model.vocab * found.model.hidden
    assert any(f"{more:,} parameters more than here" in note for note in found.notes)
    assert found.model.params + more == 247_577_856
    tied = model_from_config({"model_type": "t5", **said, "tie_word_embeddings": True}, "config.json", "t5")
    assert not any("parameters more" in note for note in tied.notes)


@every("kind", ["marian", "pegasus", "m2m_100"])
def test_positions_of_sines_are_counted_where_the_class_has_a_table_and_not_written(kind: str) -> None:
    """M2M-100's are a buffer; those of the others are parameters that do not learn."""
    model = read(kind)
    assert model.learned_positions == (kind != "m2m_100")
    assert unwritten(model)
    assert "sine-positions" in runtimes()["megatron-lm"].cannot_train(task(model))
    assert not runtimes()["fsdp"].cannot_train(task(model))
    notes = model_from_config({"model_type": kind, **SAID[kind]}, "config.json", kind).notes
    assert any("do not learn" in note for note in notes) == model.learned_positions


@every(
    ("kind", "said"),
    [
        ("bart", {"tie_word_embeddings": False}),
        ("m2m_100", {"tie_word_embeddings": False}),
        ("marian", {"share_encoder_decoder_embeddings": False}),
        ("marian", {"decoder_vocab_size": 58102}),
    ],
)
def test_more_tables_than_one_are_refused(kind: str, said: dict[str, Any]) -> None:
    """Transformers 5.23 makes a table for each half, and one that it does not use."""
    with pytest.raises(InputError, match=next(iter(said))):
        read(kind, **said)


def test_each_layer_of_umt5_has_a_table() -> None:
    model = model_from_config({"model_type": "umt5"}, "config.json", "umt5").model
    assert model.encoder is not None
    for layers, blocks in ((model.layers, model.blocks), (model.encoder.layers, model.encoder.blocks)):
        assert [blocks[name].attention.distances for name in layers] == [32] * 8  # type: ignore[union-attr]
    assert unwritten(model)


@every("kind", SAID)
def test_what_is_priced_and_padded_are_all_parameters(kind: str) -> None:
    model, runtime = read(kind), runtimes()["fsdp"]
    plan = Plan(dp=8.0, zero=3, zero_shards=8.0)
    pricer = Pricer(case_of(plan, task(model), runtime.for_model(model)), plan)
    priced = {
        name: float(total(priced_layer(pricer, name).operators, "params"))
        for name in (*model.blocks, "embedding", "tied_head", ENCODER)
    }
    layers = sum(count * priced[name] for name, count in model.layer_counts.items())
    assert layers + sum(priced[name] for name in ("embedding", "tied_head", ENCODER)) == model.params
    norm = model.norm_params / model.hidden
    for name, block in model.blocks.items():
        parts = block_parameters(block, model.hidden, norm, 1.0)
        assert sum(float(one.rows * one.columns) for one in parts) == model.block_params(name)


@every("kind", SAID)
def test_a_file_of_it_is_read_back(kind: str, tmp_path: Path) -> None:
    model, file = read(kind), tmp_path / "m.yaml"
    file.write_text(model_yaml(model), encoding="utf-8")
    assert load_model(str(file)) == model


def test_flops_of_t5_are_those_of_its_products() -> None:
    """Six for each weight and row; scores and their sum 4 n m d forward, over half the keys where causal."""
    model, (source, target, batch) = read("t5"), (512.0, 256.0, 64.0)
    square = 1024.0**2
    encoder = 24 * (source * 12 * square + 2 * source * source * 1024)
    decoder = 24 * (target * 14 * square + source * 2 * square)
    decoder += 24 * (target * target + 2 * target * source) * 1024
    head = target * 32128 * 1024
    found = job_flops(task(model))
    assert found == pytest.approx(6 * batch * (encoder + decoder + head), rel=1e-12)


@every("kind", TEXT)
@every("recompute", ["none", "full"])
def test_recompute_is_of_both_halves(kind: str, recompute: str) -> None:
    """Without it an encoder's layer keeps what a bidirectional one does; with it, its input alone."""
    model, runtime = read(kind), runtimes()["fsdp"]
    plan = Plan(dp=8.0, zero=3, zero_shards=8.0, recompute=recompute, micro_batch=2.0, num_microbatches=4.0)
    pricer = Pricer(case_of(plan, task(model), runtime.for_model(model)), plan)
    operators = priced_layer(pricer, ENCODER).operators
    kept = float(total(operators, "kept") + total(operators, "saved"))
    assert model.encoder is not None
    rows = 2.0 * model.encoder.patches
    inputs = 2.0 * rows * model.hidden * len(model.encoder.layers)
    result = 2.0 * rows * model.hidden
    biases = 2.0 * 16 * 512**2 * (kind == "t5")
    if recompute == "full":
        assert kept == inputs + result
    else:
        assert kept > 5 * inputs + biases


@every("kind", [*TEXT, "mt5"])
def test_what_is_written_for_transformers_is_the_model(kind: str) -> None:
    model = read(kind)
    assert not unwritten(model)
    raw = hub_config(model, 256)
    assert raw["architectures"][0].endswith("ForConditionalGeneration")  # type: ignore[index]
    again = model_from_config(raw, "config.json", kind).model
    assert (again.params, again.encoder, again.numerics.logit_scale) == (
        model.params, model.encoder, model.numerics.logit_scale,
    )  # fmt: skip


@every("kind", TEXT)
def test_a_shorter_source_is_written_and_read_back(kind: str) -> None:
    model = read(kind, n_positions=100)
    assert model.encoder is not None
    assert model.encoder.patches == 100
    assert not unwritten(model)
    assert model_from_config(hub_config(model, 256), "config.json", kind).model.encoder == model.encoder


@every("kind", ["bart", "t5"])
@every("name", ["fsdp", "deepspeed"])
def test_the_script_reads_sources_and_is_python(name: str, kind: str) -> None:
    model = read(kind)
    assert model.encoder is not None
    shorter = model.model_copy(update={"encoder": model.encoder.model_copy(update={"patches": 384})})
    runtime, work = runtimes()[name], task(shorter)
    assert runtime.command is not None
    command = runtime.command(jobs.plan(work, zero=2), work, runtime.versions[0])
    script = dict(command.files or {})["train.py"]
    ast.parse(script)
    assert "SOURCE_LEN = 384" in script
    assert "AutoModelForSeq2SeqLM" in script
    assert "AutoModelForCausalLM" not in script
    assert "decoder_input_ids=inputs[:, SOURCE_LEN:]" in script
    assert any("SOURCE_LEN" in note for note in command.notes)


def test_no_script_reads_sound() -> None:
    why = "an encoder of sound: the scripts that are written read text alone"
    assert unwritten(read("whisper")) == (why,)


def broken(model: ModelSpec, plan: Plan, runtime: str = "fsdp", **work: Any) -> set[str]:
    own = runtimes()[runtime].for_model(model)
    return {one.rule for one in violations(all_rules(plan, case_of(plan, task(model, **work), own)))}


WHOLE = Plan(dp=8.0, zero=2, zero_shards=8.0, micro_batch=1.0, num_microbatches=8.0)


@every(
    ("plan", "work", "rule"),
    [
        (
            replace(WHOLE, tp=2.0, dp=4.0, zero_shards=4.0, num_microbatches=16.0),
            {},
            "cross-attention-unsplit",
        ),
        (WHOLE, {"images": 2}, "cross-attention-of-one-source"),
        (WHOLE, {"document_tokens": 64}, "cross-attention-of-one-source"),
        (WHOLE, {"freeze_encoder": True}, "cross-attention-of-one-source"),
        (WHOLE, {"method": "lora", "lora_rank": 8}, "cross-attention-trains-whole"),
        (replace(WHOLE, recompute="selective"), {}, "cross-attention-recomputed-whole"),
    ],
)
def test_what_is_not_priced_is_refused(plan: Plan, work: dict[str, Any], rule: str) -> None:
    model = read("bart")
    assert not broken(model, WHOLE)
    assert rule in broken(model, plan, **work)


@every("name", ["megatron-lm", "megatron-bridge", "torchtitan", "nanotron"])
@every("kind", ["bart", "t5"])
def test_runners_of_decoders_refuse_it(name: str, kind: str) -> None:
    assert runtimes()[name].cannot_train(task(read(kind)))


@every("library", libraries())
def test_tools_that_train_next_tokens_refuse_it(library: str) -> None:
    on = libraries()[library].on(runtimes()["fsdp"])
    work = task(read("t5"))
    assert on.command is not None
    with pytest.raises(UnsupportedPlan, match="an encoder beside a decoder"):
        on.command(jobs.plan(work, zero=2), work, on.versions[0])


@every(
    ("kind", "more", "key"),
    [
        ("t5", {"d_model": 0}, "d_model"),
        ("t5", {"feed_forward_proj": "gated-other"}, "feed_forward_proj"),
        ("bart", {"d_model": 1000}, "hidden_size"),
        ("bart", {"activation_function": "mish"}, "activation_function"),
        ("whisper", {"decoder_layers": "four"}, "decoder_layers"),
    ],
)
def test_a_wrong_field_is_named(kind: str, more: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=key):
        read(kind, **more)


@every("change", [{"crosses": False}, {"encoder": None}, {"hidden": 768}])
def test_a_decoder_that_reads_an_encoder_has_one_as_wide(change: dict[str, Any]) -> None:
    record = json.loads(read("bart").model_dump_json())
    if "crosses" in change:
        for block in record["blocks"].values():
            block["cross"] = None
    else:
        record |= change
    with pytest.raises(ValueError, match="encoder"):
        ModelSpec.model_validate(record)


def test_it_is_not_whole_without_its_encoder() -> None:
    with pytest.raises(InputError, match="attends to its encoder"):
        without_encoder(ImportedModel(read("t5"), ()))
    model = read("t5")
    assert architecture(model) == "t5"


def test_it_is_imported_shown_and_searched_on_the_command_line(tmp_path: Path) -> None:
    config, file = tmp_path / "config.json", tmp_path / "t5.yaml"
    config.write_text(json.dumps({"model_type": "t5", **SAID["t5"]}))
    told = planner("models", "import", str(config), "--out", str(file))
    assert told.code == 0, told.err
    shown = planner("models", "show", str(file), "--format", "json").json
    assert shown["params"] == PARAMS["t5"]
    assert sum(part["params"] for part in shown["parts"]) == PARAMS["t5"]
    split = planner("models", "show", str(file), "--shardings")
    assert (split.code, "attend to no other sequence" in split.err) == (2, True)
    asked = ("--hardware", "8xh100", "--seq-len", "256", "--global-batch", "64")
    out = tmp_path / "out"
    found = planner("search", str(file), *asked, "--runtime", "fsdp", "--emit", str(out), "--format", "json")
    assert found.code == 0, found.err
    again = planner("estimate", "--from", str(out / "train.sh"), "--hardware", "8xh100", "--format", "json")
    assert again.code == 0, again.err
    assert again.json["step_time_s"] == pytest.approx(found.json["plans"][0]["step_time_s"], rel=1e-6)
