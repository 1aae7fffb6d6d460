"""Configs of models whose code lies beside their weights, as their authors publish them."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer, total
from planner.cost.stages import end_pieces
from planner.errors import InputError
from planner.inputs.hf_beside import as_library
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every

LING_MINI: dict[str, Any] = {
    "model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"], "first_k_dense_replace": 1,
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5120,
    "max_position_embeddings": 32768, "moe_intermediate_size": 512, "n_group": 8, "num_attention_heads": 16,
    "num_experts": 256, "num_experts_per_tok": 8, "num_hidden_layers": 20, "num_key_value_heads": 4,
    "num_shared_experts": 1, "moe_shared_expert_intermediate_size": 512, "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-6, "rope_theta": 600000, "routed_scaling_factor": 2.5, "score_function": "sigmoid",
    "topk_group": 4, "use_bias": False, "use_qk_norm": True, "use_qkv_bias": False, "vocab_size": 157184,
}  # fmt: skip
MINIMAX_01: dict[str, Any] = {
    "model_type": "minimax_text_01", "attn_type_list": [int(layer % 8 == 7) for layer in range(80)],
    "head_dim": 128, "hidden_act": "silu", "hidden_size": 6144, "intermediate_size": 9216,
    "max_position_embeddings": 10240000, "num_attention_heads": 64, "num_experts_per_tok": 2,
    "num_hidden_layers": 80, "num_key_value_heads": 8, "num_local_experts": 32, "postnorm": True,
    "rms_norm_eps": 1e-5, "rope_theta": 10000000, "rotary_dim": 64, "shared_intermediate_size": [0],
    "tie_word_embeddings": False, "vocab_size": 200064,
}  # fmt: skip
MOONLIGHT: dict[str, Any] = {
    "model_type": "deepseek_v3", "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 11264, "kv_lora_rank": 512, "moe_intermediate_size": 1408, "n_group": 1,
    "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
    "num_hidden_layers": 27, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "topk_group": 1, "v_head_dim": 128, "vocab_size": 163840, "tie_word_embeddings": False,
}  # fmt: skip
KIMI_VL: dict[str, Any] = {
    "model_type": "kimi_vl", "text_config": MOONLIGHT,
    "vision_config": {
        "model_type": "moonvit", "hidden_size": 1152, "init_pos_emb_height": 64, "init_pos_emb_width": 64,
        "intermediate_size": 4304, "merge_kernel_size": [2, 2], "num_attention_heads": 16,
        "num_hidden_layers": 27, "patch_size": 14,
    },
}  # fmt: skip
INTERN_VIT: dict[str, Any] = {
    "model_type": "intern_vit_6b", "hidden_size": 1024, "image_size": 448, "intermediate_size": 4096,
    "norm_type": "layer_norm", "num_attention_heads": 16, "num_hidden_layers": 24, "patch_size": 14,
    "qk_normalization": False, "qkv_bias": True,
}  # fmt: skip
INTERNVL: dict[str, Any] = {
    "model_type": "internvl_chat", "downsample_ratio": 0.5, "tie_word_embeddings": False,
    "vision_config": INTERN_VIT,
    "llm_config": {
        "model_type": "qwen3", "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
        "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936,
        "tie_word_embeddings": False,
    },
}  # fmt: skip
DEEPSEEK_OCR: dict[str, Any] = {
    "model_type": "DeepseekOCR", "vision_config": {"image_size": 1024},
    "language_config": {
        "first_k_dense_replace": 1, "hidden_size": 1280, "intermediate_size": 6848, "kv_lora_rank": None,
        "moe_intermediate_size": 896, "n_group": 1, "n_routed_experts": 64, "n_shared_experts": 2,
        "num_attention_heads": 10, "num_experts_per_tok": 6, "num_hidden_layers": 12,
        "num_key_value_heads": 10, "q_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0,
        "topk_group": 1, "topk_method": "greedy", "use_mla": False, "v_head_dim": 0, "vocab_size": 129280,
    },
}  # fmt: skip
K_EXAONE: dict[str, Any] = {
    "model_type": "exaone_moe", "head_dim": 128, "hidden_size": 6144, "intermediate_size": 18432,
    "is_moe_layer": [False] + [True] * 47, "max_position_embeddings": 262144,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 12, "moe_intermediate_size": 2048,
    "num_attention_heads": 64, "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
    "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "num_shared_experts": 1, "sliding_window": 128,
    "sliding_window_pattern": "LLLG", "vocab_size": 153600,
}  # fmt: skip
EXAONE_45: dict[str, Any] = {
    "model_type": "exaone4_5", "tie_word_embeddings": False,
    "text_config": {
        "model_type": "exaone4_5_text", "head_dim": 128, "hidden_size": 5120, "intermediate_size": 27392,
        "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 16, "num_attention_heads": 40,
        "num_hidden_layers": 64, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 153600,
    },
    "vision_config": {
        "model_type": "exaone4_5_vision", "depth": 28, "fullatt_block_indexes": [6, 13, 20, 27],
        "hidden_size": 2048, "intermediate_size": 5120, "num_heads": 32, "num_key_value_heads": 8,
        "out_hidden_size": 5120,
    },
}  # fmt: skip


@every(
    ("raw", "total", "active", "digit"),
    [
        (LING_MINI, 16e9, 1.4e9, 0.5e9),  # huggingface.co/inclusionAI/Ling-mini-2.0
        (MINIMAX_01, 456e9, 48.4e9, 1e9),  # github.com/MiniMax-AI/MiniMax-01: 45.9B and two tables of 1.2B
        (KIMI_VL, 16.4e9, 3.36e9, 0.05e9),  # huggingface.co/moonshotai/Kimi-VL-A3B-Instruct
        (INTERNVL, 8.53e9, 8.53e9, 0.01e9),  # huggingface.co/OpenGVLab/InternVL3_5-8B
        (K_EXAONE, 236e9, 23e9, 1e9),  # huggingface.co/LGAI-EXAONE/K-EXAONE-236B-A23B
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_parameters_are_those_of_the_card(
    raw: dict[str, Any], total: float, active: float, digit: float
) -> None:
    model = model_from_config(raw, "config.json", "m").model
    assert model.params == pytest.approx(total, abs=digit)
    assert model.active_params == pytest.approx(active, abs=digit)


def test_ling_s_second_generation_is_told_by_its_class_or_its_scores() -> None:
    """Ling-mini 2.0's card: 789M active parameters without embedding and head."""
    bare = {key: value for key, value in LING_MINI.items() if key not in ("architectures", "model_type")}
    whole, told = (
        model_from_config(one, "config.json", "m").model
        for one in (LING_MINI, {**bare, "model_type": "bailing_moe_v2"})
    )
    assert whole == told
    assert whole.active_params - 2 * whole.vocab * whole.hidden == pytest.approx(789e6, abs=0.5e6)
    router = whole.numerics.router
    assert router is not None
    assert (router.score, router.expert_bias, router.groups, router.top_groups) == ("sigmoid", True, 8, 4)
    assert whole.attentions[0].qk_norm == "head"  # type: ignore[union-attr]


def test_what_ling_s_code_does_not_do_is_refused() -> None:
    with pytest.raises(InputError, match="moe_shared_expert_intermediate_size"):
        model_from_config(LING_MINI | {"moe_shared_expert_intermediate_size": 1024}, "config.json", "m")


@every(("key", "value"), [("postnorm", False), ("shared_intermediate_size", [4096]), ("sliding_window", 128)])
def test_a_minimax_of_another_shape_is_refused(key: str, value: object) -> None:
    with pytest.raises(InputError, match=key):
        model_from_config(MINIMAX_01 | {key: value}, "config.json", "m")


def test_an_encoder_that_is_not_expressed_is_left_out_and_told() -> None:
    """InternViT-6B has other norms; DeepSeek-OCR looks with two encoders after each other."""
    large = {"model_type": "intern_vit_6b", "image_size": 448}
    for raw in (INTERNVL | {"vision_config": large}, DEEPSEEK_OCR):
        found = model_from_config(raw, "config.json", "m")
        assert found.model.encoder is None
        assert any("the language model alone" in note for note in found.notes)


def test_deepseek_s_readers_of_images_have_latent_attention_or_none() -> None:
    plain = model_from_config(DEEPSEEK_OCR, "config.json", "m").model
    assert plain.attentions[0].kind == "attention"
    text = MOONLIGHT | {"model_type": "deepseek_v2", "q_lora_rank": None}
    latent = model_from_config({"model_type": "deepseek_vl_v2", "language_config": text}, "c", "m").model
    assert latent.attentions[0].kind == "latent"


def test_both_spellings_of_moonvit_are_read() -> None:
    """Kimi K2.5's file, huggingface.co/moonshotai/Kimi-K2.5, has widths of its encoder under ``vt_`` keys."""
    seen = KIMI_VL["vision_config"]
    names = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers")
    other = {key: value for key, value in seen.items() if key not in names}
    other |= {f"vt_{key}": seen[key] for key in names} | {"vt_hidden_size": 768}
    made = {"model_type": "kimi_k25", "text_config": MOONLIGHT, "vision_config": other}
    model = model_from_config(made, "config.json", "m").model
    assert model.encoder is not None
    assert model.encoder.hidden == 768


def test_an_extra_prediction_layer_of_exaone_is_dense() -> None:
    """Megatron-Bridge 067f987d, ``exaone_moe_provider.py``: its spec has no experts, and full attention."""
    model = model_from_config(K_EXAONE, "config.json", "m").model
    assert model.prediction is not None
    block = model.blocks[model.prediction.block]
    assert (block.ffn.kind, block.ffn.inner) == ("dense", 18432)  # type: ignore[union-attr]
    assert block.attention is not None
    assert block.attention.window is None
    assert model.layers[0] == "sliding-dense"
    listed = K_EXAONE | {"is_moe_layer": [False, False] + [True] * 46}
    assert model_from_config(listed, "config.json", "m").model.layers[1] == "sliding-dense"
    with pytest.raises(InputError, match="num_nextn_predict_layers"):
        model_from_config(K_EXAONE | {"is_moe_layer": [True] * 48}, "config.json", "m")
    with pytest.raises(InputError, match="swiglu_limits"):
        model_from_config(K_EXAONE | {"swiglu_limits": [7.0] * 48}, "config.json", "m")


@every("sparse", [False, True])
def test_an_extra_prediction_layer_of_its_own_kind_is_priced_whole(sparse: bool) -> None:
    """The block, and beside it the projection of two widths to one and two norms, each once.

    The norm after it stands in its head.
    """
    model = model_from_config(K_EXAONE, "config.json", "m").model
    assert model.prediction is not None
    if sparse:
        model = model.model_copy(
            update={"prediction": model.prediction.model_copy(update={"block": "bare-moe"})}
        )
    assert model.prediction is not None
    job = Job(model, load_hardware("dgx-h100"), 8, Workload(seq_len=4096, global_batch=8))
    plan = Plan(dp=8.0, zero=1, zero_shards=8.0, micro_batch=1.0, num_microbatches=1.0)
    pricer = Pricer(case_of(plan, job, runtimes()["megatron-lm"]), plan)
    places = end_pieces(model, [model.num_layers], True, False)
    named = [name for _, (name, _), _ in places if name in ("prediction", model.prediction.block)]
    assert len(named) == 2
    found = sum(float(total(priced_layer(pricer, name).operators, "params")) for name in named)
    assert found + model.norm_params == model.prediction_params


def test_exaone_4_5_is_read_as_it_was_first_published() -> None:
    """Counts are those of transformers 5.23 for the same config: 33,813,987,328 in all.

    Its encoder is Qwen2.5-VL's but for groups of queries: 8 pairs of keys and values for 32.
    """
    text = {**EXAONE_45["text_config"], "model_type": "exaone4"}
    first, now = (
        model_from_config(raw, "config.json", "m").model
        for raw in (EXAONE_45, {**EXAONE_45, "text_config": text})
    )
    assert first == now
    assert first.params == 33_813_987_328
    assert first.encoder is not None
    assert first.encoder.params == 1_286_482_944
    qwen = {**EXAONE_45, "model_type": "qwen2_5_vl", "text_config": {**text, "model_type": "qwen2_5_vl_text"}}
    other = model_from_config(qwen, "config.json", "m").model.encoder
    assert other is not None
    assert other.params - first.encoder.params == 28 * 2 * (32 - 8) * 64 * (2048 + 1)


def test_kimi_s_gates_that_are_whole_matrices_are_refused() -> None:
    """As Kimi K3's published configuration has them."""
    text = MOONLIGHT | {"model_type": "kimi_linear", "num_experts": 64}
    whole = {"full_attn_layers": [4], "num_heads": 16, "head_dim": 128, "use_full_rank_gate": True}
    with pytest.raises(InputError, match="use_full_rank_gate"):
        model_from_config(text | {"linear_attn_config": whole}, "config.json", "m")


def test_grok_2_is_not_taken_for_the_captioner_of_its_model_type() -> None:
    raw = {"model_type": "git", "num_local_experts": 8, "vocab_size": 131072}
    with pytest.raises(InputError, match="grok-2 with experts beside a dense feed-forward"):
        model_from_config(raw, "config.json", "m")
    with pytest.raises(InputError, match="git with a decoder that reads an encoder"):
        model_from_config({"model_type": "git", "vocab_size": 30522}, "config.json", "m")


@every("raw", [LING_MINI, MINIMAX_01, KIMI_VL, INTERNVL, DEEPSEEK_OCR, K_EXAONE, EXAONE_45])
def test_a_config_that_was_turned_once_stays(raw: dict[str, Any]) -> None:
    once = as_library(raw)
    assert as_library(once) == once


def test_a_config_without_its_language_model_is_told() -> None:
    for kind in ("internvl_chat", "deepseek_vl_v2"):
        with pytest.raises(InputError, match="without a vocabulary"):
            model_from_config({"model_type": kind, "vision_config": {}}, "config.json", "m")


@every("name", ["OpenGVLab/InternVL3_5-8B", "moonshotai/Kimi-VL-A3B-Instruct"])
def test_models_of_images_are_whole_in_the_zoo(name: str) -> None:
    assert load_model(name).encoder is not None
