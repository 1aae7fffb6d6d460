"""The types of the hub that are taken by what is read back: transformers builds and keeps what is priced."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.encoders import encoder_case
from planner.cost.layer.operators import Pricer
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.runtimes.fsdp import ENTRY
from planner.runtimes.hub.config import architecture, attention_name, hub_config, layer_class, type_of
from planner.runtimes.hub.hybrids import HYBRIDS
from planner.runtimes.hub.kinds import TYPES
from tests.helpers import ROOT
from tests.validate.ask import PYTHON

pytestmark = [
    pytest.mark.torch,
    pytest.mark.needs("transformers", "no interpreter with transformers: make validate"),
]

TOKENS = 256
ZOO = {
    "llama": "tinyllama-1.1b", "qwen3": "qwen3-0.6b", "gpt2": "gpt2",
    "gemma": "gemma-2b", "glm4": "glm-4-9b-0414", "olmo": "olmo-7b", "olmo2": "olmo2-7b",
    "olmoe": "olmoe-1b-7b", "opt": "opt-1.3b", "phi": "phi-1.5", "gpt_neox": "pythia-1b",
    "stablelm": "stablelm-2-1.6b", "bloom": "bloom-1b1", "falcon": "falcon-7b", "gptj": "gpt-j-6b",
    "gpt_neo": "gpt-neo-1.3b", "mpt": "mpt-7b", "gpt_bigcode": "starcoderbase-1b", "cohere": "command-r",
    "nemotron": "nemotron-4-15b", "mistral": "mistral-7b-v0.1", "phi3": "phi4-mini", "smollm3": "smollm3-3b",
    "gemma2": "gemma2-2b", "gemma3_text": "gemma3-1b", "gemma4_text": "gemma4-31b", "olmo3": "olmo3-7b",
    "starcoder2": "starcoder2-3b", "dbrx": "dbrx", "minimax_m2": "minimax-m2.5",
    "bert": "bert-base-uncased", "roberta": "roberta-base", "distilbert": "distilbert-base-uncased",
    "modernbert": "modernbert-base",
    "qwen2_moe": "qwen1.5-moe-a2.7b", "glm4_moe": "glm-4.5-air", "llama4_text": "llama4-scout",
    "qwen3_5_text": "qwen3.5-27b", "gpt_oss": "gpt-oss-20b",
}  # fmt: skip
"""A model of each type, and of three that are told part by part."""

_WIDE = {
    "hidden_size": 1024, "intermediate_size": 4096, "num_attention_heads": 16, "num_hidden_layers": 12,
    "vocab_size": 30528, "max_position_embeddings": 1026,
}  # fmt: skip
_SIDES = {
    f"{side}_{key}": size
    for side in ("encoder", "decoder")
    for key, size in (("layers", 12), ("attention_heads", 16), ("ffn_dim", 4096))
}
SAID = {
    "megatron-bert": _WIDE, "roberta-prelayernorm": _WIDE, "xlm-roberta-xl": _WIDE, "nomic_bert": _WIDE,
    "jina_embeddings_v3": _WIDE, "eurobert": _WIDE | {"num_key_value_heads": 4},
    "t5": {"d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 12, "num_heads": 16,
           "vocab_size": 32128, "n_positions": 320},
    "bart": {"d_model": 1024, "vocab_size": 30528, "max_position_embeddings": 320, **_SIDES},
    "mbart": {"d_model": 1024, "vocab_size": 30528, "max_position_embeddings": 320, **_SIDES},
    "modernbert-decoder": _WIDE | {"local_attention": 128},
    "apertus": _WIDE | {"num_key_value_heads": 4, "hidden_act": "xielu"},
    "hunyuan_v1_dense": _WIDE | {"num_key_value_heads": 4, "head_dim": 64},
    "hunyuan_v1_moe": _WIDE | {"num_key_value_heads": 4, "head_dim": 64, "num_experts": 8, "moe_topk": 2},
    "exaone4": _WIDE | {"num_key_value_heads": 4, "head_dim": 64, "sliding_window": None},
    "cwm": _WIDE | {
        "num_key_value_heads": 4, "head_dim": 64, "sliding_window": 512,
        "layer_types": 4 * ["full_attention", "full_attention", "sliding_attention"],
    },
    "ministral3": _WIDE | {
        "num_key_value_heads": 4, "head_dim": 64, "sliding_window": None,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0,
                            "original_max_position_embeddings": 64, "llama_4_scaling_beta": 0.1},
    },
    "ernie4_5_moe": _WIDE | {
        "num_key_value_heads": 4, "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": 512,
        "moe_num_shared_experts": 2,
    },
    "qwen3_5_moe_text": _WIDE | {
        "num_key_value_heads": 4, "head_dim": 64, "num_experts": 8, "num_experts_per_tok": 2,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
        "layer_types": 4 * ["linear_attention", "linear_attention", "full_attention"],
    },
}  # fmt: skip
"""Configurations of types of which the zoo has no model."""

KINDS = (*ZOO, *SAID)

OLD_WORDS = {"rope_theta", "rope_scaling"}
"""Keys that transformers takes of earlier files, for every type."""

TAKEN = {
    "t5": {"n_positions", "tie_word_embeddings"},
    "nomic_bert": {"tie_word_embeddings"},
    "jina_embeddings_v3": {"head_dim"},
    "exaone4": {"head_dim"},
    "gemma4_text": {"global_head_dim", "num_global_key_value_heads"},
    "gpt_neo": {"attention_layers"},
    "glm4_moe": {"head_dim", "num_nextn_predict_layers"},
}
"""Keys that a type's configuration takes without declaring them, or makes of others."""


HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
WIDTHS = (
    *("hidden_size", "intermediate_size", "ffn_dim", "word_embed_proj_dim", "n_embd", "n_inner", "d_model"),
    *(
        "num_attention_heads",
        "num_key_value_heads",
        "n_head",
        "n_heads",
        "num_heads",
        "num_kv_heads",
        "kv_n_heads",
    ),
    *("dim", "hidden_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim"),
    *("intermediate_size_mlp", "ffn_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size"),
)


def smaller(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration of layers a quarter as wide, with heads as they are."""
    own = config | {key: max(1, config[key] // 4) for key in WIDTHS if key in config}
    heads = next((own[key] for key in HEADS if key in own), 1)
    own |= (
        {"hidden_size": own["hidden_size"] - own["hidden_size"] % (8 * heads)} if "hidden_size" in own else {}
    )
    groups = {key: smaller(part) for key, part in config.items() if key in ("attn_config", "ffn_config")}
    return own | groups


def trained(kind: str) -> ModelSpec:
    """Return the model of a type as FSDP trains it: without layers that predict further tokens."""
    if kind in SAID:
        return model_from_config(SAID[kind] | {"model_type": kind}, "config.json", kind).model
    return ENTRY.trained(load_model(ZOO[kind]))


def attention_of(kind: str) -> str:
    """Return the attention with which a type's layer is counted."""
    return attention_name(trained(kind), "flash-2")


def test_each_dense_type_has_a_model_of_the_zoo() -> None:
    kinds = {kind: architecture(trained(kind)) for kind in KINDS}
    assert kinds == {kind: kind for kind in KINDS}
    assert set(KINDS) >= set(TYPES) - set(HYBRIDS) - {"cohere2", "qwen3_next"}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folders: dict[str, Path] = {}
    for kind in KINDS:
        folders[kind] = tmp_path_factory.mktemp(kind)
        whole = hub_config(trained(kind), TOKENS)
        for folder, config in ((folders[kind], whole), (folders[kind] / "small", smaller(whole))):
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    done = subprocess.run(
        [PYTHON, ROOT / "tests/validate/check_kept.py"],
        input="\n".join(f"{attention_of(kind)} {folder}" for kind, folder in folders.items()),
        capture_output=True, text=True, check=True, timeout=900,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(folders, lines, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_transformers_builds_the_model(kind: str, answers: dict[str, Any]) -> None:
    found = answers[kind]
    assert found["params"] == trained(kind).params
    assert set(layer_class(kind).split(",")) <= set(found["classes"])
    assert set(found["undeclared"]) <= OLD_WORDS | TAKEN.get(kind, set())
    own = type_of(kind)
    named = [name for group in own.adapted.values() for name in group] if own else []
    for name in named:
        assert any(own.endswith(name) for own in found["linear"]), name


APART = {
    "gptj": (1.04, 1.06), "glm4_moe": (0.975, 0.985), "dbrx": (0.94, 0.96), "ernie4_5_moe": (0.95, 0.96),
}  # fmt: skip
"""Bounds of what is priced over what is kept: GLM-4.5 keeps its router's weights in fp32, DBRX more of each
expert, which runs by itself; ERNIE 4.5 makes cosines and sines in fp32 layer by layer, a
hundredth in its own size; why GPT-J keeps less is not known."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_layer_keeps_what_is_priced(kind: str, answers: dict[str, Any]) -> None:
    """Heads are not repeated where no mask is given, on a processor as on a GPU; their parts are joined."""
    small = smaller(hub_config(trained(kind), TOKENS))
    model = model_from_config(small, "config.json", kind).model
    priced = kept_of(model, ENTRY.for_model(model))
    least, most = APART.get(kind, (0.99, 1.01))
    assert least < priced / answers[kind]["kept"] < most


@pytest.mark.parametrize("kind", ["t5", "bart", "mbart"])
def test_a_layer_of_an_encoder_keeps_what_is_priced(kind: str, answers: dict[str, Any]) -> None:
    small = smaller(hub_config(trained(kind), TOKENS))
    model = model_from_config(small, "config.json", kind).model
    assert model.encoder is not None
    job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=TOKENS, global_batch=1))
    pricer = Pricer(encoder_case(case_of(Plan(dp=1), job, ENTRY.for_model(model))), Plan(dp=1))
    operators = block_operators(pricer, model.encoder.blocks[model.encoder.layers[2]])
    priced = float(sum(operator.kept + operator.saved for operator in operators))
    assert priced == pytest.approx(answers[kind]["read"], rel=0.01)


def kept_of(model: ModelSpec, runtime: Runtime) -> float:
    """Return the bytes that a layer keeps under FSDP without recompute."""
    job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=TOKENS, global_batch=1))
    pricer = Pricer(case_of(Plan(dp=1), job, runtime), Plan(dp=1))
    operators = block_operators(pricer, model.blocks[model.layers[2]])
    return float(sum(operator.kept + operator.saved for operator in operators))
