"""Configs as their authors publish them: parameters are those that the model's card prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from tests.cases import every
from tests.helpers import ROOT

CHECKED = json.loads((ROOT / "tests" / "unit" / "data" / "checked_configs.json").read_text())["models"]
SHAPE = (
    *("hidden", "vocab", "tied_embeddings", "max_positions", "learned_positions", "norm", "norm_bias"),
    *("final_norm", "variants", "layers", "diffusion", "numerics"),
)

EXAONE_32B: dict[str, Any] = {
    "model_type": "exaone4", "hidden_size": 5120, "intermediate_size": 27392, "num_attention_heads": 40,
    "num_hidden_layers": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 102400,
    "sliding_window": 4096, "sliding_window_pattern": "LLLG", "tie_word_embeddings": False,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 16, "max_position_embeddings": 131072,
}  # fmt: skip
PHI_35_MOE: dict[str, Any] = {
    "model_type": "phimoe", "attention_bias": True, "hidden_size": 4096, "intermediate_size": 6400,
    "lm_head_bias": True, "max_position_embeddings": 131072, "num_attention_heads": 32,
    "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
    "sliding_window": 131072, "vocab_size": 32064,
}  # fmt: skip
HUNYUAN_A13B: dict[str, Any] = {
    "model_type": "hunyuan_v1_moe", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 3072,
    "moe_intermediate_size": [3072] * 32, "moe_topk": [8] * 32, "num_attention_heads": 32, "num_experts": 64,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "num_shared_expert": [1] * 32, "use_qk_norm": True,
    "tie_word_embeddings": True, "vocab_size": 128167,
}  # fmt: skip
ERNIE_21B: dict[str, Any] = {
    "model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288, "num_attention_heads": 20,
    "num_key_value_heads": 4, "num_hidden_layers": 28, "use_bias": False, "vocab_size": 103424,
    "moe_num_experts": 64, "moe_num_shared_experts": 2, "moe_layer_start_index": 1,
    "moe_layer_end_index": 28, "moe_layer_interval": 1, "moe_intermediate_size": 1536, "moe_k": 6,
    "tie_word_embeddings": True,
}  # fmt: skip
TRINITY_MINI: dict[str, Any] = {
    "model_type": "afmoe", "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 1024,
    "head_dim": 128, "num_attention_heads": 32, "num_key_value_heads": 4, "num_hidden_layers": 32,
    "num_dense_layers": 2, "num_experts": 128, "num_experts_per_tok": 8, "num_shared_experts": 1,
    "mup_enabled": True, "sliding_window": 2048, "tie_word_embeddings": False, "vocab_size": 200192,
}  # fmt: skip


@every(
    ("raw", "total", "active", "digit"),
    [
        (PHI_35_MOE, 41.9e9, 6.6e9, 0.1e9),  # huggingface.co/microsoft/Phi-3.5-MoE-instruct
        (HUNYUAN_A13B, 80e9, 13e9, 1e9),  # huggingface.co/tencent/Hunyuan-A13B-Instruct
        (ERNIE_21B, 21e9, 3e9, 1e9),  # huggingface.co/baidu/ERNIE-4.5-21B-A3B-PT
        (TRINITY_MINI, 26e9, 3e9, 1e9),  # huggingface.co/arcee-ai/Trinity-Mini
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_parameters_are_those_of_the_card(
    raw: dict[str, Any], total: float, active: float, digit: float
) -> None:
    model = model_from_config(raw, "config.json", "m").model
    assert (model.params, model.active_params) == (
        pytest.approx(total, abs=digit),
        pytest.approx(active, abs=digit),
    )


def test_exaone_4_without_embeddings_is_what_its_card_says() -> None:
    """huggingface.co/LGAI-EXAONE/EXAONE-4.0-32B: 30.95B without embeddings; one layer of four is global."""
    model = model_from_config(EXAONE_32B, "config.json", "m").model
    assert model.params - 2 * model.vocab * model.hidden == pytest.approx(30.95e9, abs=0.005e9)
    seen = [model.blocks[name].attention for name in model.layers[:4]]
    assert [one.window for one in seen if one] == [4096, 4096, 4096, None]


@every("case", CHECKED, ids=lambda case: case["name"])
def test_the_zoo_has_what_the_authors_recipe_says(case: dict[str, Any]) -> None:
    """Configs put together from recipes and conversion scripts, each named in the file."""
    read = model_from_config(case["config"], "config.json", case["name"]).model
    ours = load_model(case["name"])
    assert {name: getattr(read, name) for name in SHAPE} == {name: getattr(ours, name) for name in SHAPE}
    assert [read.blocks[name] for name in read.layers] == [ours.blocks[name] for name in ours.layers]
