"""What a model's own config says beside shapes comes in exactly, and out of the YAML again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.model_yaml import model_yaml
from planner.inputs.numerics import said
from tests.cases import every

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 2, "num_attention_heads": 16,
    "intermediate_size": 5632, "vocab_size": 32000, "max_position_embeddings": 131072,
}  # fmt: skip
DEEPSEEK: dict[str, Any] = LLAMA | {
    "model_type": "deepseek_v3", "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 1, "n_group": 8,
    "topk_group": 4, "routed_scaling_factor": 2.5, "norm_topk_prob": True, "scoring_func": "sigmoid",
    "rms_norm_eps": 1e-6, "aux_loss_alpha": 0.001, "seq_aux": True, "topk_method": "noaux_tc",
    "rope_scaling": {
        "type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
        "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
    },
}  # fmt: skip


def read(raw: dict[str, Any]) -> dict[str, Any]:
    return said(model_from_config(raw, "config.json", "mine").model.numerics)


def test_base_epsilon_and_initialiser_of_llama_3() -> None:
    raw = LLAMA | {"rope_theta": 500000.0, "rms_norm_eps": 1e-5, "initializer_range": 0.01}
    found = read(raw)
    wanted = {"rope_theta": 5e5, "norm_epsilon": 1e-5, "init_std": 0.01, "activation": "silu"}
    assert found == wanted


def test_llama_3_1_scaling_under_the_keys_of_transformers_4_and_5() -> None:
    scaling = {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }  # fmt: skip
    old = read(LLAMA | {"rope_theta": 5e5, "rope_scaling": scaling})
    new = read(LLAMA | {"rope_parameters": scaling | {"rope_theta": 5e5}})
    assert old == new
    assert old["rope_scaling"] == {
        "kind": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_positions": 8192,
    }  # fmt: skip


def test_router_and_yarn_of_deepseek_v3() -> None:
    found = read(DEEPSEEK)
    assert found["router"] == {
        "score": "sigmoid", "groups": 8, "top_groups": 4, "scale": 2.5, "normalize": True,
        "expert_bias": True, "aux_loss": 0.001, "per_sequence": True,
    }  # fmt: skip
    assert found["rope_scaling"]["mscale_all_dim"] == 1.0


def test_scales_and_caps_of_gemma_2() -> None:
    raw = LLAMA | {
        "model_type": "gemma2", "hidden_size": 2304, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "sliding_window": 4096, "query_pre_attn_scalar": 224,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    }  # fmt: skip
    found = read(raw)
    assert found["attention_scale"] == pytest.approx(1 / 224**0.5)
    assert found["embedding_scale"] == 48.0
    assert (found["attention_softcap"], found["logit_softcap"]) == (50.0, 30.0)
    assert found["activation"] == "gelu_tanh"


def test_multipliers_of_granite() -> None:
    raw = LLAMA | {
        "model_type": "granite", "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
        "residual_multiplier": 0.22, "logits_scaling": 8.0,
    }  # fmt: skip
    found = read(raw)
    names = ("attention_scale", "embedding_scale", "residual_scale", "logit_scale")
    assert [found[name] for name in names] == [0.015625, 12.0, 0.22, 0.125]


def test_an_absent_key_has_the_default_of_the_type() -> None:
    raw = LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    found = read(raw)
    assert (found["rope_theta"], found["norm_epsilon"]) == (1e6, 1e-5)
    assert found["router"] == {"score": "softmax", "normalize": True, "aux_loss": 0.001}


@every(
    ("key", "value"),
    [
        ("rope_theta", "big"),
        ("rope_theta", True),
        ("rms_norm_eps", -1.0),
        ("initializer_range", float("nan")),
        ("partial_rotary_factor", 2.0),
        ("hidden_act", "snake"),
        ("rope_scaling", {"rope_type": "spiral", "factor": 2.0}),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_its_key(key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        read(LLAMA | {key: value})


@every("raw", [LLAMA, DEEPSEEK], ids=["llama", "deepseek"])
def test_yaml_keeps_every_number(raw: dict[str, Any], tmp_path: Path) -> None:
    model = model_from_config(raw | {"rms_norm_eps": 1.3e-7}, "config.json", "mine").model
    file = tmp_path / "mine.yaml"
    file.write_text(model_yaml(model))
    assert load_model(str(file)).numerics == model.numerics
