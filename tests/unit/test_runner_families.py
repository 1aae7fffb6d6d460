"""Model types that are imported: a runner's files say the model whole, or it names what it lacks."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any, get_args

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model, model_names
from planner.inputs.model import Attention, DenseFfn, Experts, ModelSpec
from planner.inputs.variants import MEANINGS, Variant
from planner.plan import Plan
from planner.question.usual import training
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.hub.config import architecture, hub_config, model_notes, unwritten
from planner.runtimes.megatron_bridge.own_layers import own_layers
from tests.cases import every
from tests.helpers import ROOT
from tests.validate.megatron import cases

CASES = json.loads((ROOT / "tests" / "unit" / "data" / "hf_small_configs.json").read_text())["cases"]
RUNNERS = ("megatron-lm", "megatron-bridge", "torchtitan", "nanotron", "fsdp", "deepspeed")
ALONE = Plan()
LLAMA = cases.job("llama3-8b", 8, seq_len=2048, global_batch=8)


@cache
def models_of(kind: str) -> tuple[ModelSpec, ...]:
    """Return the models that the small configurations of a type are read as, once for all runners."""
    raws = [case["config"] for case in CASES if case["config"]["model_type"] == kind]
    return tuple(model_from_config(raw, "config.json", kind).model for raw in raws)


def faults(runner: str, model: Any) -> str:
    """What a runner's rules say of a model on 8 GPUs, one replica on each."""
    said = runtimes()[runner].rules(cases.plan(8, 8), replace(LLAMA, model=model))
    return " ".join(str(fault) for fault in violations(said))


def test_every_variant_has_a_meaning() -> None:
    assert set(MEANINGS) == set(get_args(Variant))


@every("variant", MEANINGS)
@every("runner", RUNNERS[:4])
def test_a_runner_names_the_variant_that_it_lacks(runner: str, variant: Variant) -> None:
    assert MEANINGS[variant] not in faults(runner, LLAMA.model)
    found = faults(runner, LLAMA.model.model_copy(update={"variants": (variant,)}))
    assert f"{MEANINGS[variant]} (variants: {variant})" in found


SAME = {
    "hunyuan_vl_text": "hunyuan_v1_dense",
    "codegen": "gptj",
    "gemma4_unified_text": "gemma4_text",
    "ernie": "bert",
} | dict.fromkeys(("camembert", "data2vec-text", "xlm-roberta"), "roberta")
"""Types that compute what another does, maybe from weights laid out otherwise."""


@every("runner", RUNNERS)
@every("kind", sorted({case["config"]["model_type"] for case in CASES}))
def test_a_model_with_a_variant_is_written_as_its_own_type_or_by_no_runner(runner: str, kind: str) -> None:
    """What would be written otherwise is another model; FSDP and DeepSpeed train it by its own code."""
    for model in models_of(kind):
        if runner in RUNNERS[4:]:
            own = architecture(model) in (kind, SAME.get(kind))
            assert not model.variants or own or runtimes()[runner].unwritten(model)
            continue
        found = faults(runner, model)
        own_ones = own_layers(model) if runner == "megatron-bridge" else None
        if own_ones and model.variants and own_ones.variants == model.variants:
            assert not any(variant in found for variant in model.variants)
            continue
        assert not model.variants or "a model that its files can build" in found
        assert all(f"variants: {variant}" in found for variant in model.variants)


@every("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_what_is_written_for_transformers_is_the_model_again(case: dict[str, Any]) -> None:
    model = model_from_config(case["config"], "config.json", "m").model
    if unwritten(model):
        return
    again = model_from_config(hub_config(model, 8), "config.json", "m").model
    assert (again.params, again.active_params) == (model.params, model.active_params)
    assert [again.blocks[name] for name in again.layers] == [model.blocks[name] for name in model.layers]
    assert again.variants == model.variants


def test_short_convolutions_and_jamba_are_written_unless_something_of_them_is_not_read() -> None:
    """Layers in Jamba's periods are found again; without a convolution LFM2 is Qwen3."""
    found = {
        kind: [
            architecture(model_from_config(case["config"], "config.json", "m").model)
            for case in CASES
            if case["config"]["model_type"] == kind
        ]
        for kind in ("lfm2", "lfm2_moe", "jamba", "mamba")
    }
    # A model without attention has none of the kernels that the scripts ask for.
    assert found == {
        "lfm2": ["lfm2", "lfm2", "qwen3"], "lfm2_moe": ["lfm2_moe"], "jamba": ["jamba", "jamba"],
        "mamba": [None, None],
    }  # fmt: skip


@every(
    "name",
    [
        "bloom-176b",
        "command-r",
        "dbrx",
        "falcon-7b",
        "gpt-j-6b",
        "nemotron-3-super-120b-a12b",
        "olmo-7b",
        "phi-2",
    ],
)
def test_what_is_priced_has_all_of_the_parameters(name: str) -> None:
    """Norms after the embedding, biases of the head and norms without weights among them."""
    assert_all_is_priced(load_model(name))


@every("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_what_is_imported_is_priced_with_all_of_its_parameters(case: dict[str, Any]) -> None:
    assert_all_is_priced(model_from_config(case["config"], "config.json", "m").model)


def small_vectors(model: ModelSpec) -> int:
    """Parameters that no operator holds: biases of experts and router, gates of shared experts, sinks."""
    found = model.head_bias * model.tied_embeddings * model.vocab
    for block in (model.blocks[name] for name in model.layers):
        ffn, mixer = block.ffn, block.mixer
        if isinstance(ffn, Experts):
            each = (1 + ffn.gated) * ffn.inner + ffn.width(model.hidden)
            found += (
                ffn.bias * ffn.experts * each + ffn.router_bias * ffn.choices + ffn.shared_gate * model.hidden
            )
        if isinstance(ffn, DenseFfn):
            found += ffn.activation_weights
        if isinstance(mixer, Attention):
            found += mixer.sinks * mixer.heads
    return found


def assert_all_is_priced(model: ModelSpec) -> None:
    """Assert that the operators of all layers and ends hold the model's parameters, no more and no fewer."""
    pricer = Pricer(case_of(ALONE, replace(LLAMA, model=model, gpus=1), runtimes()["megatron-lm"]), ALONE)
    layers = [*model.layers, "embedding", "tied_head" if model.tied_embeddings else "head"]
    sums = {one: float(total(priced_layer(pricer, one).operators, "params")) for one in set(layers)}
    assert sum(sums[one] for one in layers) == model.params - small_vectors(model)


def test_every_model_of_the_zoo_has_a_runtime_that_trains_it() -> None:
    for name in model_names():
        assert training(runtimes(), replace(LLAMA, model=load_model(name))), name


def test_every_language_model_of_the_zoo_is_written_by_some_runner() -> None:
    alone = [
        name for name in model_names()
        if load_model(name).diffusion is None and load_model(name).encoder is None
        and runtimes()["fsdp"].unwritten(load_model(name))
        and not training(RUNNERS[:4], replace(LLAMA, model=load_model(name)))
    ]  # fmt: skip
    assert alone == ["baichuan2-13b", "baichuan2-7b"], "their normed head rows are in their own code alone"


@every(("kind", "needed"), [("falcon_h1", "mamba-ssm"), ("lfm2", "causal-conv1d")])
def test_the_run_card_names_the_packages_of_kernels_that_are_priced(kind: str, needed: str) -> None:
    raw = next(case["config"] for case in CASES if case["config"]["model_type"] == kind)
    notes = " ".join(model_notes(model_from_config(raw, "config.json", "m").model))
    assert f"Install {needed}" in notes
    assert "Install" not in " ".join(model_notes(LLAMA.model))


def test_the_run_card_says_that_experts_run_one_after_the_other() -> None:
    """Transformers 5.23, ``models/dbrx``: a loop over the experts that are hit, without another choice."""
    assert any("one after the other" in note for note in model_notes(load_model("dbrx")))
    assert not any("one after the other" in note for note in model_notes(load_model("minimax-m2.5")))


GRANITE_4: dict[str, Any] = {
    "model_type": "granitemoehybrid", "hidden_size": 4096, "intermediate_size": 768, "num_hidden_layers": 40,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 100352, "tie_word_embeddings": True,
    "layer_types": ["attention" if place in (5, 15, 25, 35) else "mamba" for place in range(40)],
    "num_local_experts": 72, "num_experts_per_tok": 10, "shared_intermediate_size": 1536,
    "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4,
    "mamba_expand": 2, "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_proj_bias": False,
    "position_embedding_type": "nope", "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
    "residual_multiplier": 0.22, "logits_scaling": 16, "rms_norm_eps": 1e-5, "router_aux_loss_coef": 0.0001,
    "max_position_embeddings": 131072, "hidden_act": "silu",
}  # fmt: skip


@every("experts", [True, False], ids=["experts", "dense"])
def test_granite_4_is_written_with_its_multipliers_and_the_kinds_of_its_layers(experts: bool) -> None:
    """IBM prints 32 B parameters, 9 of them active, of Granite 4.0 H Small."""
    more = {} if experts else {"num_local_experts": 0, "num_experts_per_tok": 0}
    model = model_from_config(GRANITE_4 | more, "config.json", "granite").model
    assert (architecture(model), unwritten(model)) == ("granitemoehybrid", ())
    config = hub_config(model, 4096)
    assert config["layer_types"] == GRANITE_4["layer_types"]
    for key in ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"):
        assert config[key] == GRANITE_4[key]
    if experts:
        assert round(model.params / 1e9) == 32
        assert round(model.active_params / 1e9) == 9
    assert training(("fsdp", "deepspeed"), replace(LLAMA, model=model)) == ("fsdp", "deepspeed")
