"""Models, clusters, counts and numbers as people write them: what they are taken for, and that it is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planner.errors import InputError
from planner.inputs.lent_numbers import model_note
from planner.inputs.load import load_model, model_names
from planner.inputs.load_hardware import accelerator_names, load_accelerator, load_hardware
from planner.inputs.shipped import data_folder, names_and_aliases
from planner.inputs.spoken_cluster import spoken_cluster
from planner.inputs.spoken_model import note_of, zoo_model
from planner.inputs.twins import TWINS
from tests.cases import every
from tests.cli.command import planner

EIGHT = ("--hardware", "dgx-h100", "--gpus", "8")
SMALL = ("--global-batch", "16", "--recompute", "full", "--format", "json")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


@every(
    ("said", "model"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama3.1-8b"),
        ("Llama 3.1 8B", "llama3.1-8b"),
        ("Meta-Llama-3-8B-Instruct", "llama3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2-7b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("google/gemma-3-27b-pt", "gemma3-27b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("allenai/OLMo-2-1124-7B-Instruct", "olmo2-7b"),
    ],
)
def test_a_variant_is_the_model_of_its_shape(said: str, model: str) -> None:
    assert load_model(said).name == model


@every(
    ("said", "near"),
    [
        ("llama 8b", "llama3-8b, llama3.1-8b"),
        ("mistralai/Mistral-Large-Instruct-2411", "mistral-large-2407"),
        ("glm-4-9b-0520", "glm-4-9b, glm-4-9b-0414"),
        ("meta-llama/Llama-3.1-8B-Instruct-FP8", "llama3.1-8b"),
        ("ibm-granite/granite-3.0-8b-instruct", "granite-3.0-8b"),
    ],
)
def test_what_may_have_another_shape_is_refused_with_the_candidates(said: str, near: str) -> None:
    with pytest.raises(InputError) as refused:
        load_model(said)
    assert near in refused.value.problems[0].nearest


def test_no_name_of_the_zoo_is_spoken_for_another_of_its_models() -> None:
    index = names_and_aliases(data_folder("models_zoo"))
    for name, path in index.items():
        found = zoo_model(name)
        assert found in (None, path), name
    shapes = {name: load_model(name).params for name in model_names()}
    for name, params in shapes.items():
        found = zoo_model(f"someone/{name}-Instruct")
        assert found is None or shapes[found.stem] == params, name


def cached(home: Path, name: str, revisions: dict[str, dict[str, object]], main: str = "") -> Path:
    folder = home / "hub" / f"models--{name.replace('/', '--')}"
    for revision, config in revisions.items():
        place = folder / "snapshots" / revision
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps(config))
    if main:
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(main)
    return folder


def test_the_cache_of_the_hub_is_read_at_the_revision_of_main(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    monkeypatch.delenv("HUGGINGFACE_HUB_CACHE", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    wider = CONFIG | {"num_hidden_layers": 6}
    cached(tmp_path, "acme/Little-1", {"aaa": CONFIG, "bbb": wider}, main="aaa")
    ask = ("acme/Little-1", "--hardware", "dgx-h100", "--gpus", "8", "--seq-len", "1024", *SMALL)
    done = planner("estimate", *ask)
    assert done.code == 0
    assert done.json["model"]["name"] == "Little-1"
    assert load_model("acme/little-1").num_layers == 4
    assert "read from the Hugging Face cache" in done.err
    assert "snapshots/aaa/config.json" in done.err
    saved = tmp_path / "plan.yaml"
    assert planner("estimate", *ask, "--save", str(saved)).code == 0
    assert planner("emit", str(saved), "--out", str(tmp_path / "run")).code == 0
    monkeypatch.setenv("HF_HOME", str(tmp_path / "none"))
    assert load_model(str(tmp_path / "run" / "model.yaml")).num_layers == 4


def test_a_cache_without_the_file_or_unreadable_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    (tmp_path / "models--acme--Little-1" / "snapshots" / "aaa").mkdir(parents=True)
    for name in ("acme/Little-1", "acme/Other-1"):
        done = planner("estimate", name, "--hardware", "dgx-h100")
        assert done.code == 2
        assert f"https://huggingface.co/{name}/resolve/main/config.json" in done.err


@every(
    ("said", "cluster", "gpus"),
    [
        ("h100", "dgx-h100", 8),
        ("8xH100", "dgx-h100", 8),
        ("H100 SXM", "dgx-h100", 8),
        ("RTX 4090", "rtx4090-8-pcie", 8),
        ("2x RTX4090", "rtx4090-8-pcie", 2),
        ("MI300X", "mi300x-8", 8),
        ("A100 40GB", "dgx-a100-40gb", 8),
        ("NVIDIA H100 80GB HBM3", "dgx-h100", 8),
        ("H100x16", "dgx-h100", 16),
        ("H100:8", "dgx-h100", 8),
    ],
)
def test_an_accelerator_stands_for_its_usual_cluster(said: str, cluster: str, gpus: int) -> None:
    default = () if spoken_cluster(said).gpus else ("--gpus", "8")  # type: ignore[union-attr]
    ask = ("--zero", "3", "--micro-batch", "1", *SMALL, *default)
    done = planner("estimate", "gpt2", "--hardware", said, *ask)
    assert (done.json["hardware"]["name"], done.json["hardware"]["gpus"]) == (cluster, gpus)
    assert f"note: {said} is taken as {cluster}, the usual cluster of" in done.err
    assert "note" not in planner("estimate", "gpt2", "--hardware", said, *ask, "--quiet").err


def test_a_cluster_may_have_spaces_for_hyphens() -> None:
    assert load_hardware("DGX H100").name == "dgx-h100"
    assert load_hardware("gb200 nvl72").name == "gb200-nvl72"


def test_every_accelerator_leads_to_a_cluster_that_holds_it() -> None:
    for name in accelerator_names():
        assert load_hardware(name).pool.accelerator.name == load_accelerator(name).name


def test_nodes_are_accelerators_and_may_not_contradict() -> None:
    ask = ("estimate", "gpt2", "--hardware", "dgx-h100", *SMALL)
    assert planner(*ask, "--nodes", "2").json["hardware"]["gpus"] == 16
    assert planner(*ask, "--nodes", "2", "--gpus", "16").json["hardware"]["gpus"] == 16
    halved = planner(*ask, "--nodes", "2", "--gpus-per-node", "4")
    assert halved.json["hardware"]["gpus"] == 8
    both = planner("estimate", "gpt2", "--hardware", "8xH100", *SMALL, "--nodes", "2")
    assert both.json["hardware"]["gpus"] == 16
    for given in (("--nodes", "2", "--gpus", "64"), ("--nodes", "0"), ("--nodes", "x")):
        assert planner(*ask, *given).code == 2
    told = planner(*ask, "--nodes", "2", "--gpus", "64").err
    assert "--nodes 2: found 16 accelerators; expected the 64 accelerators of --gpus 64" in told
    assert planner("estimate", "gpt2", "--hardware", "8xH100", "--gpus", "64", *SMALL).code == 2


def test_a_configured_count_yields_to_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_GPUS", "64")
    done = planner("estimate", "gpt2", "--hardware", "dgx-h100", "--nodes", "2", *SMALL)
    assert done.json["hardware"]["gpus"] == 16


@every(
    ("option", "text", "key", "value"),
    [
        ("--seq-len", "2K", "seq_len", 2048),
        ("--seq-len", "2k", "seq_len", 2048),
        ("--seq-len", "0.5K", "seq_len", 512),
        ("--global-batch", "1K", "global_batch", 1024),
        ("--global-batch-tokens", "1M", "global_batch", 256),
    ],
)
def test_k_and_m_are_binary_in_lengths_and_batches(option: str, text: str, key: str, value: int) -> None:
    ask = ("estimate", "llama3-8b", *EIGHT, "--recompute", "full", "--format", "json")
    done = planner(*ask, option, text)
    assert done.json["workload"][key] == value
    said = {"2K": "2,048", "2k": "2,048", "0.5K": "512", "1K": "1,024", "1M": "1,048,576"}[text]
    assert f"note: {option} {text} is {said} (" in done.err


def test_training_tokens_are_decimal() -> None:
    ask = ("estimate", "llama3-8b", *EIGHT, "--recompute", "full", "--format", "json")
    one, other = planner(*ask, "--tokens", "300M"), planner(*ask, "--tokens", "300000000")
    assert one.json["days_to_train"] == other.json["days_to_train"]
    assert "note: --tokens 300M is 300,000,000 (M is 1,000,000)" in one.err
    assert other.err == ""


@every(
    ("option", "near"),
    [
        ("--batch-size", "--global-batch or --micro-batch"),
        ("--hw", "--hardware"),
        ("--global-batch-size", "--global-batch"),
        ("--seq", "--seq-len"),
        ("--model", "the model without an option, as the first word"),
        ("--tensor-model-parallel-size", "--tp"),
        ("--hardwar", "--hardware"),
        ("--seqlen", "--seq-len"),
        ("--seq_len", "--seq-len"),
        ("--gpu", "--gpus or --hardware"),
        ("--json", "--format json"),
    ],
)
def test_an_option_by_its_name_elsewhere_gets_the_name_here(option: str, near: str) -> None:
    done = planner("search", "llama3-8b", option, "3")
    assert done.code == 2
    assert f"no such option: {option}; nearest: {near}; see" in done.err


def test_synonyms_lead_to_options_that_exist() -> None:
    from planner.cli.commands import LazyCommands
    from planner.cli.synonyms import SAID

    known = {name for command in LazyCommands().values() for one in command.params for name in one.opts}
    hints = {word for name in SAID for word in name.split(" or ")} - {"MODEL"}
    assert hints <= known
    words = [word for others in SAID.values() for word in others.split()]
    assert len(words) == len(set(words))


@every(
    ("name", "zoo"),
    [
        ("Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"),
        ("Qwen/QwQ-32B", "qwen2.5-32b"),
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct", "qwen3-30b-a3b"),
        ("TinyLlama/TinyLlama-1.1B-Chat-v1.0", "tinyllama-1.1b"),
        ("01-ai/Yi-1.5-9B-Chat", "yi-9b"),
        ("zai-org/GLM-4.6", "glm-4.5"),
        ("NousResearch/Hermes-3-Llama-3.1-8B", "llama3.1-8b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "qwen2.5-32b"),
        ("deepseek-v3.1", "deepseek-v3"),
        ("Qwen/Qwen2-7B-Instruct", "qwen2.5-7b"),
    ],
)
def test_a_shape_that_was_used_again_is_known_and_told(name: str, zoo: str) -> None:
    assert load_model(name).name == zoo
    assert note_of(name) == f"{name} is taken as {zoo}, which has its shape"


def test_every_twin_is_in_the_zoo() -> None:
    assert set(TWINS.values()) <= set(model_names())


@every("name", ["granite-3.3-8b-instruct", "mixtral", "acme-7b-instruct", "Qwen2.5-Coder"])
def test_no_shape_is_guessed(name: str) -> None:
    with pytest.raises(InputError):
        load_model(name)


def test_the_numbers_of_a_shape_that_was_used_again_are_told() -> None:
    """Its files would otherwise have another base, or positions that are not stretched, in silence."""
    assert model_note("togethercomputer/LLaMA-2-7B-32K") == (
        "togethercomputer/LLaMA-2-7B-32K is taken as llama2-7b, which has its shape; files have rope_theta "
        "10000, no rope_scaling, norm_epsilon 1e-05 from it: compare its own config.json"
    )
    assert "rope_theta" in model_note("microsoft/Phi-3-mini-128k-instruct")
    assert "rope_theta" not in model_note("meta-llama/Llama-3.1-8B-Instruct-2407")
    assert model_note("llama2-7b") == ""


def test_several_clusters_in_one_option_are_told_one_by_one() -> None:
    told = planner("search", "llama3-8b", "--hardware", "h100,a100", "--gpus", "8").err
    assert "found 'h100,a100'; expected one cluster; nearest: --hardware h100 --hardware a100" in told


def test_several_runtimes_in_one_option_are_told_one_by_one() -> None:
    told = planner("search", "llama3-8b", "--hardware", "dgx-h100", "--runtime", "megatron-lm,fsdp").err
    assert (
        "found 'megatron-lm,fsdp'; expected one runtime; nearest: --runtime megatron-lm --runtime fsdp"
        in told
    )
