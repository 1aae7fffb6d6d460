"""Configs of Hugging Face models: read exactly, or refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError
from planner.inputs.hf_config import model_from_config, read_hf_config
from planner.inputs.hf_refused import REASONS
from planner.inputs.hf_types import FAMILIES, WRAPPERS
from planner.inputs.load import load_model
from planner.inputs.model import Attention, LatentAttention
from tests.cases import every
from tests.helpers import ROOT

CASES = json.loads((ROOT / "tests" / "unit" / "data" / "hf_small_configs.json").read_text())["cases"]

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
}


def read(*removed: str, **changed: Any) -> Any:
    raw = {key: value for key, value in LLAMA.items() if key not in removed} | changed
    return model_from_config(raw, "config.json", "m")


def fault(*removed: str, **changed: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(*removed, **changed)
    return str(caught.value)


@every("case", CASES, ids=lambda case: case["config"]["model_type"])
def test_parameters_equal_those_that_the_modelling_code_makes(case: dict[str, Any]) -> None:
    assert model_from_config(case["config"], "config.json", "m").model.params == case["params"]


def test_every_family_but_renamed_ones_is_compared_with_the_modelling_code() -> None:
    assert {case["config"]["model_type"] for case in CASES} == set(FAMILIES) - {"kimi_k2", "mimo"}


def test_absent_fields_take_the_default_of_the_type_and_say_so() -> None:
    imported = read()
    assert not imported.model.tied_embeddings
    assert "tie_word_embeddings is absent: False, the default of the model type" in imported.notes
    assert "head_dim is absent: the hidden size over the heads" in imported.notes
    gemma = LLAMA | {"model_type": "gemma2", "head_dim": 32, "sliding_window": 16}
    assert model_from_config(gemma, "c", "m").model.tied_embeddings


@every(
    ("right", "wrong"),
    [
        ("num_key_value_heads", "num_key_value_head"),
        ("tie_word_embeddings", "tie_word_embeddingss"),
        ("head_dim", "haed_dim"),
        ("max_position_embeddings", "max_posttion_embeddings"),
    ],
)
def test_a_key_that_is_one_letter_off_is_no_default_in_silence(right: str, wrong: str) -> None:
    assert fault(right, **{wrong: 2}) == f"config.json: {wrong}: found no key that is read; expected {right}"
    assert read(right, num_key_value_groups=2, my_head_dim=8, emb_pdrop=0.1).model.params


def test_dropout_of_a_config_is_told_as_not_read() -> None:
    told = "attention_dropout 0.1: not read, since dropout and noise belong to the run"
    assert told in read(attention_dropout=0.1).notes
    assert not [note for note in read(attention_dropout=0.0).notes if "dropout" in note]


def test_a_head_may_have_another_width_than_hidden_over_heads() -> None:
    mixer = read(head_dim=128).model.blocks["dense"].mixer
    assert isinstance(mixer, Attention)
    assert mixer.head_dim == 128


@every(("kind", "width"), [("qwen3", 128), ("gemma2", 256), ("qwen2", 16), ("llama", 16)])
def test_a_width_of_heads_that_a_config_leaves_out_is_that_of_its_type(kind: str, width: int) -> None:
    """Transformers 5.24, the configuration classes: most take the hidden size over the heads."""
    more = {"sliding_window": 8} if kind == "gemma2" else {}
    assert read(model_type=kind, **more).model.attentions[0].head_dim == width


def test_a_number_that_a_type_leaves_open_is_asked_for_by_its_key() -> None:
    """DeepSeek-V2's class has no default for it; DBRX spells it its own way."""
    latent = {"kv_lora_rank": 16, "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    told = fault(model_type="deepseek_v2", n_routed_experts=8, moe_intermediate_size=16, **latent)
    assert '"num_experts_per_tok": N in the file, or one of num_experts_per_token, top_k_experts' in told
    assert '"ffn_config.moe_num_experts": N' in fault(model_type="dbrx")


def test_key_value_heads_default_to_the_heads() -> None:
    assert read("num_key_value_heads").model.blocks["dense"].mixer.kv_heads == 4


@every("experts", ["num_local_experts", "num_experts", "n_routed_experts"])
@every("topk", ["num_experts_per_tok", "num_experts_per_token", "top_k_experts"])
def test_experts_have_several_names(experts: str, topk: str) -> None:
    block = read(model_type="mixtral", **{experts: 8, topk: 2}).model.blocks["moe"]
    assert (block.ffn.experts, block.ffn.topk, block.ffn.inner) == (8, 2, 96)


def moe(**changed: Any) -> tuple[tuple[str, int], ...]:
    base = {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 6,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "q_lora_rank": None,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    }
    return read(**(base | changed)).model.runs


@every(
    ("changed", "runs"),
    [
        ({}, (("dense", 3), ("moe", 3))),
        ({"first_k_dense_replace": 0}, (("moe", 6),)),
        ({"first_k_dense_replace": 2}, (("dense", 2), ("moe", 4))),
        (
            {"moe_layer_freq": 3, "first_k_dense_replace": 0},
            (("moe", 1), ("dense", 2), ("moe", 1), ("dense", 2)),
        ),
        ({"moe_layer_freq": [0, 1, 1, 0, 0, 1]}, (("dense", 1), ("moe", 2), ("dense", 2), ("moe", 1))),
        ({"mlp_layer_types": ["dense"] * 4 + ["sparse"] * 2}, (("dense", 4), ("moe", 2))),
    ],
)
def test_which_layers_have_experts(changed: dict[str, Any], runs: tuple[tuple[str, int], ...]) -> None:
    assert moe(**changed) == runs


def test_experts_in_every_second_layer_and_dense_exceptions() -> None:
    qwen = {
        "model_type": "qwen3_moe",
        "num_hidden_layers": 6,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    }
    assert read(**qwen, decoder_sparse_step=2, mlp_only_layers=[5]).model.layers == tuple(
        ["dense", "moe", "dense", "moe", "dense", "dense"]
    )


def test_a_null_rank_is_no_compression_and_an_absent_one_the_default() -> None:
    base = {
        "model_type": "deepseek_v2",
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 16,
        "qk_rope_head_dim": 8,
        "v_head_dim": 16,
    }
    ranks = [read(**base, **extra).model.blocks["moe"].mixer for extra in ({"q_lora_rank": None}, {})]
    assert [mixer.q_lora_rank for mixer in ranks if isinstance(mixer, LatentAttention)] == [0, 1536]


def windows(**changed: Any) -> list[int | None]:
    model = read(**changed).model
    return [model.blocks[name].mixer.window for name in model.layers]


def test_layers_that_see_a_window() -> None:
    kinds = ["sliding_attention", "full_attention"]
    assert windows(model_type="mistral", sliding_window=8) == [8, 8]
    assert windows(model_type="mistral", sliding_window=None) == [None, None]
    assert windows(model_type="qwen2", sliding_window=8, use_sliding_window=False) == [None, None]
    qwen = {"model_type": "qwen2", "sliding_window": 8, "use_sliding_window": True}
    assert windows(**qwen, max_window_layers=1) == [None, 8]
    assert windows(model_type="gemma2", sliding_window=8) == [8, None]
    assert windows(model_type="gemma2", sliding_window=8, layer_types=kinds[::-1]) == [None, 8]
    gemma = {"model_type": "gemma3_text", "num_hidden_layers": 7, "sliding_window": 8}
    assert windows(**gemma) == [8] * 5 + [None, 8]
    assert windows(**gemma, sliding_window_pattern=2) == [8, None] * 3 + [8]
    assert windows(model_type="mistral", sliding_window=8, max_position_embeddings=8) == [None, None]


def test_llama4_attends_in_chunks_and_to_all_in_each_fourth_layer() -> None:
    llama4 = {
        "model_type": "llama4",
        "text_config": LLAMA
        | {
            "model_type": "llama4_text",
            "num_hidden_layers": 4,
            "intermediate_size_mlp": 200,
            "interleave_moe_layer_step": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "attention_chunk_size": 8,
            "head_dim": 16,
        },
    }
    imported = model_from_config(llama4, "c", "m")
    model = imported.model
    assert model.layers == ("chunked-dense", "chunked-moe", "chunked-dense", "full-moe")
    assert model.blocks["chunked-moe"].mixer == Attention(
        heads=4, kv_heads=2, head_dim=16, window=8, chunked=True
    )
    assert not model.blocks["full-moe"].mixer.rotary
    assert (model.blocks["full-moe"].ffn.shared_inner, model.blocks["chunked-dense"].ffn.inner) == (96, 200)
    assert not any("the language model alone" in note for note in imported.notes)


def test_the_wrapper_says_whether_embeddings_are_tied_where_its_text_does_not() -> None:
    text = {key: value for key, value in LLAMA.items() if key != "model_type"}
    wrapper = {"model_type": "mistral3", "text_config": text}
    assert model_from_config(wrapper | {"tie_word_embeddings": True}, "c", "m").model.tied_embeddings
    assert not model_from_config(wrapper, "c", "m").model.tied_embeddings


@every(
    ("changed", "reason"),
    [
        ({"model_type": "deepseek_v4", "index_topk": 512}, "an indexer that picks the keys"),
        ({"model_type": "deepseek_v4", "compress_ratios": [0, 4]}, "compressed keys and values"),
        ({"model_type": "deepseek_v4", "hc_mult": 4}, "hyper-connections"),
        ({"model_type": "mine", "hybrid_override_pattern": "M-M*"}, "state-space layers"),
        ({"model_type": "zamba"}, "Mamba-1 heads"),
        ({"model_type": "mllama"}, "cross attention to images in some layers"),
        ({"model_type": "albert"}, "one layer that all share"),
        ({"model_type": "mixtral", "moe_latent_size": 1024}, "experts in a latent space"),
        ({"model_type": "nemotron-nas", "block_configs": [{"attention": {}}]}, "architecture search"),
        ({"model_type": "llama", "full_attention_interval": 4}, "linear attention"),
        (
            {"model_type": "qwen3", "layer_types": ["linear_attention", "full_attention"]},
            "linear attention layers",
        ),
        ({"model_type": "gemma3_text", "attention_k_eq_v": True}, "keys that are also values"),
        ({"model_type": "minimax_m3", "sparse_attention_config": {"sparse_block_size": 128}}, "an indexer"),
        ({"model_type": "kimi_k3", "linear_attn_config": {"num_heads": 96}}, "linear attention"),
        ({"model_type": "llama", "attn_output_gate": True}, "output gate"),
        ({"model_type": "longt5", "is_encoder_decoder": True}, "an encoder"),
    ],
)
def test_what_cannot_be_expressed_is_refused_with_its_reason(changed: dict[str, Any], reason: str) -> None:
    message = fault(**changed)
    assert reason in message
    assert "expresses exactly" in message


def test_a_type_without_a_vocabulary_is_no_language_model() -> None:
    message = fault("vocab_size", model_type="vit", image_size=224)
    assert "model_type vit without a vocabulary: an encoder of images or sound" in message
    assert "unheard" in fault(model_type="unheard")


def test_no_type_is_both_read_and_refused() -> None:
    assert not set(FAMILIES) & set(REASONS)
    assert not set(WRAPPERS) & set(REASONS)


def test_remote_code_is_never_run_and_an_unknown_type_that_has_it_is_refused() -> None:
    auto = {"AutoModelForCausalLM": "modeling_mine.MineForCausalLM"}
    assert "remote code, which is never run" in fault(model_type="mine", auto_map=auto)
    assert any("never run" in note for note in read(auto_map=auto).notes)


def test_an_unknown_type_is_answered_with_near_ones() -> None:
    assert "nearest: llama" in fault(model_type="llma")
    assert "model_type" in fault("model_type")


def test_every_missing_or_wrong_field_is_told_at_once() -> None:
    message = fault(
        "vocab_size", hidden_size="4096", num_hidden_layers=float("nan"), num_attention_heads=True
    )
    for words in (
        "config.json: vocab_size: found nothing; expected a whole number",
        "config.json: hidden_size: found '4096'; expected a whole number of at least 1",
        "config.json: num_hidden_layers: found nan; expected a whole number of at least 1",
        "config.json: num_attention_heads: found True; expected a whole number of at least 1",
    ):
        assert words in message


@every(
    ("changed", "words"),
    [
        ({"tie_word_embeddings": "no"}, "true or false"),
        ({"num_hidden_layers": 10**9}, "at most 10000"),
        ({"num_hidden_layers": -1}, "at least 1"),
        ({"hidden_size": 2.5}, "a whole number"),
        ({"num_attention_heads": 5}, "5 heads do not divide 64"),
        ({"num_key_value_heads": 3}, "kv_heads"),
        ({"num_experts": 8}, "this model type has none"),
        ({"model_type": "mistral", "sliding_window": 8, "layer_types": ["full_attention"]}, "1 layers"),
        ({"model_type": "mistral", "layer_types": ["sliding_attention"] * 2}, "a window, since"),
        (
            {"model_type": "qwen3", "use_sliding_window": True, "sliding_window": "x"},
            "sliding_window: found 'x'",
        ),
        ({"text_config": [1]}, "text_config: found list"),
        ({"model_type": ["llama"]}, "model_type"),
    ],
)
def test_a_wrong_value_is_told(changed: dict[str, Any], words: str) -> None:
    assert words in fault(**changed)


def test_a_folder_names_its_model_and_load_model_takes_it(tmp_path: Path) -> None:
    folder = tmp_path / "My-Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    assert read_hf_config(folder).model.name == "My-Model"
    assert load_model(str(folder)) == load_model(str(folder / "config.json"))
    assert read_hf_config(folder, "other").model.name == "other"


def test_an_infinity_in_a_field_that_is_not_read_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | {"time_step_limit": [0.0, float("inf")]}))
    assert read_hf_config(path).model.hidden == 64


@every(
    ("kind", "key", "value"),
    [
        ("opt", "do_layer_norm_before", False),
        ("opt", "word_embed_proj_dim", 32),
        ("opt", "_remove_final_layer_norm", True),
        ("phi", "qk_layernorm", True),
        ("gpt_bigcode", "multi_query", False),
        ("cohere2", "use_parallel_block", False),
        ("gpt2", "scale_attn_by_inverse_layer_idx", True),
        ("gemma3_text", "use_bidirectional_attention", True),
        ("smollm3", "use_sliding_window", True),
    ],
)
def test_a_key_that_makes_another_architecture_is_refused(kind: str, key: str, value: object) -> None:
    own = {"model_type": kind, "ffn_dim": 96, "max_position_embeddings": 64, "hidden_act": "silu"}
    assert key in fault(**own, **{key: value})


@every(
    ("kind", "changed", "norms", "variants"),
    [
        ("falcon", {}, 1, ("parallel-blocks",)),
        ("falcon", {"new_decoder_architecture": True}, 2, ("parallel-blocks",)),
        ("falcon", {"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}, 1, ("parallel-blocks",)),
        ("falcon", {"parallel_attn": False, "alibi": True}, 2, ("alibi",)),
        ("gpt_neox", {}, 2, ("parallel-blocks",)),
        ("gpt_neox", {"use_parallel_residual": False}, 2, ()),
        ("stablelm", {"use_parallel_residual": True}, 1, ("parallel-blocks",)),
        ("cohere", {"hidden_act": "silu"}, 1, ("parallel-blocks",)),
        ("phimoe", {"num_local_experts": 4, "num_experts_per_tok": 2}, 2, ("sparse-mixer",)),
        ("exaone4", {}, 2, ("norms-after",)),
        ("hunyuan_v1_dense", {}, 2, ("head-norms-after-rotary",)),
        ("hyperclovax", {"use_post_norm": True}, 4, ()),
    ],
)
def test_what_of_its_blocks_is_other_than_usual_is_said(
    kind: str, changed: dict[str, Any], norms: int, variants: tuple[str, ...]
) -> None:
    """Transformers 5.24: ``FalconDecoderLayer``, ``GPTNeoXLayer``, ``StableLmDecoderLayer`` and so on."""
    model = read(model_type=kind, **changed).model
    assert ({block.norms for block in model.blocks.values()}, model.variants) == ({norms}, variants)


def test_scales_and_bounds_of_new_types_are_read() -> None:
    """MiniCPM3: 1.4 over the root of the layers, 256 over the width; DBRX: queries, keys, values cut at 8."""
    said = [json.loads(json.dumps(case["config"])) for case in CASES]
    minicpm = next(raw for raw in said if raw["model_type"] == "minicpm3")
    found = model_from_config(minicpm | {"scale_emb": 12}, "c", "m").model
    assert found.numerics.residual_scale == pytest.approx(1.4 / found.num_layers**0.5)
    assert (found.numerics.logit_scale, found.numerics.embedding_scale) == (256 / 128, 12)
    dbrx = next(raw for raw in said if raw["model_type"] == "dbrx")
    assert model_from_config(dbrx, "c", "m").model.numerics.qkv_clip == 8.0
    olmo = next(raw for raw in said if raw["model_type"] == "olmo_hybrid")
    hybrid = model_from_config(olmo | {"rope_parameters": {"rope_theta": None}}, "c", "m").model
    assert not hybrid.attentions[0].model_dump()["rotary"]
    assert hybrid.variants == ("norms-after-attention", "negative-eigenvalues")
    scaling = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}
    hunyuan = read(model_type="hunyuan_v1_dense", head_dim=128, rope_scaling=scaling).model.numerics
    assert (hunyuan.rope_theta, hunyuan.rope_scaling) == (pytest.approx(1e4 * 1000 ** (128 / 126)), None)
    seven = {"model_type": "cohere2", "position_embedding_type": "rope_gptj", "num_hidden_layers": 4}
    window = read(**seven, sliding_window=8, hidden_act="silu").model
    seen = [(window.blocks[name].mixer.window, window.blocks[name].mixer.rotary) for name in window.layers]
    assert seen == [(8, True)] * 3 + [(None, False)]


def test_layers_without_rotary_positions_are_those_of_the_list_or_each_fourth() -> None:
    """SmolLM3: ``no_rope_layers`` has 1 where positions turn."""
    model = read(model_type="smollm3", num_hidden_layers=8).model
    assert [model.blocks[name].mixer.rotary for name in model.layers] == [True, True, True, False] * 2
    listed = read(model_type="smollm3", num_hidden_layers=3, no_rope_layers=[0, 1, 0]).model
    assert [listed.blocks[name].mixer.rotary for name in listed.layers] == [False, True, False]


def test_learned_positions_of_opt_have_two_rows_more() -> None:
    """transformers, OPTLearnedPositionalEmbedding: ``num_embeddings + self.offset`` with an offset of 2."""
    model = read(model_type="opt", ffn_dim=96, max_position_embeddings=64).model
    assert (model.max_positions, model.position_rows) == (64, 66)


def test_a_decoder_of_berts_is_no_encoder() -> None:
    own = {"model_type": "bert", "is_decoder": True, "type_vocab_size": 2}
    assert "is_decoder: found True; expected False" in fault("head_dim", "num_key_value_heads", **own)


def test_positions_of_roberta_begin_after_that_of_padding() -> None:
    """transformers, ``create_position_ids_from_input_ids``: a table of 514 rows is for 512 tokens."""
    own = {"pad_token_id": 1, "max_position_embeddings": 514, "type_vocab_size": 1}
    model = read("head_dim", "num_key_value_heads", model_type="roberta", **own).model
    assert (model.max_positions, model.position_rows) == (512, 514)


def test_a_window_on_both_sides_counts_the_token_itself() -> None:
    """transformers, ``sliding_window_bidirectional_overlay``: a distance of at most half of the keys."""
    said = {"local_attention": 16, "position_embedding_type": "absolute", "global_attn_every_n_layers": 2}
    model = read("head_dim", "num_key_value_heads", model_type="modernbert", **said).model
    mixers = [model.blocks[name].mixer for name in model.layers]
    assert [getattr(mixer, "window", None) for mixer in mixers][:2] == [None, 17]
    assert all(isinstance(mixer, Attention) and mixer.rotary and not mixer.causal for mixer in mixers)
    assert (model.numerics.rope_theta, model.numerics.local_rope_theta) == (160000.0, 10000.0)


@every(
    ("config", "blocks"),
    [
        ({"model_type": "llava", "vision_config": {"model_type": "x"}, "text_config": LLAMA}, 1),
        (
            {
                "model_type": "ovis2",
                "vision_config": {},
                "text_config": LLAMA | {"model_type": "qwen2"},
            },
            1,
        ),
    ],
)
def test_of_a_vision_language_model_the_language_model_is_read_and_the_rest_told(
    config: dict[str, Any], blocks: int
) -> None:
    """The encoder may stand beside a text_config, or in the config of the language model itself."""
    raw = (LLAMA if "text_config" not in config else {}) | config
    imported = model_from_config(raw, "config.json", "m")
    assert len(imported.model.blocks) == blocks
    assert any("no price has their memory and time" in note for note in imported.notes)
    assert imported.model.numerics.rope_scaling is None


def test_a_share_of_a_head_is_said_as_a_width_too(tmp_path: Path) -> None:
    """MiniMax-M2's config.json has ``rotary_dim`` 64 of heads of 128, which transformers reads as a half."""
    config = {
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "hidden_act": "silu",
        "hidden_size": 3072,
        "intermediate_size": 1536,
        "max_position_embeddings": 196608,
        "num_attention_heads": 48,
        "num_experts_per_tok": 8,
        "num_hidden_layers": 62,
        "num_key_value_heads": 8,
        "num_local_experts": 256,
        "head_dim": 128,
        "rms_norm_eps": 1e-06,
        "rope_theta": 5000000,
        "rotary_dim": 64,
        "scoring_func": "sigmoid",
        "tie_word_embeddings": False,
        "use_qk_norm": True,
        "qk_norm_type": "per_layer",
        "use_routing_bias": True,
        "vocab_size": 200064,
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    model = load_model(str(path))
    assert model.numerics is not None
    assert model.numerics.rope_fraction == load_model("minimax-m2.5").numerics.rope_fraction == 0.5


NEMOTRON: dict[str, Any] = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "M-M*E",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 100,
    "mamba_num_heads": 8,
    "mamba_head_dim": 16,
    "n_groups": 2,
    "ssm_state_size": 16,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "moe_shared_expert_intermediate_size": 40,
    "num_nextn_predict_layers": 1,
}


def test_an_extra_prediction_layer_of_a_hybrid_is_of_the_two_parts_that_it_names() -> None:
    """A projection of two streams and three norms beside attention, experts and a norm before each."""
    model = model_from_config(NEMOTRON | {"mtp_hybrid_override_pattern": "*E"}, "c", "m").model
    attention, experts = 64 * (4 + 2) * 64, 6 * 2 * 64 * 24 + 64 * 6 + 2 * 64 * 40
    assert model.layers == ("linear", "dense", "linear", "full", "moe")
    assert model.prediction_params == 2 * 64 * 64 + 3 * 64 + attention + experts + 2 * 64
    with pytest.raises(InputError, match=r"\*E or \*-"):
        model_from_config(NEMOTRON | {"mtp_hybrid_override_pattern": "M*"}, "c", "m")


def test_the_whole_model_says_whether_its_head_is_the_embedding() -> None:
    """Transformers 5.24 ties the head of a vision-language model by the outer key, whatever is inside."""
    text = LLAMA | {"tie_word_embeddings": False}
    raw = {"model_type": "llava", "vision_config": {"hidden_size": 64}, "text_config": text}
    assert not model_from_config(raw, "c", "m").model.tied_embeddings
    found = model_from_config(raw | {"tie_word_embeddings": True}, "c", "m")
    assert found.model.tied_embeddings
    assert any("not as text_config does" in note for note in found.notes)


def test_windows_of_mimo_have_twice_the_heads_and_sinks_where_no_key_says_it() -> None:
    """Transformers 5.24, ``modeling_mimo_v2_flash.py``: what its own files leave out of the older ones."""
    raw = next(case["config"] for case in CASES if case["config"]["model_type"] == "mimo_v2_flash")
    bare = {key: value for key, value in raw.items() if not key.startswith(("swa_", "add_"))}
    kinds = {mixer.window: mixer for mixer in model_from_config(bare, "c", "m").model.attentions}
    whole, sliding = kinds[None], kinds[16]
    assert isinstance(whole, Attention)
    assert isinstance(sliding, Attention)
    assert sliding.kv_heads == 2 * whole.kv_heads
    assert (sliding.sinks, whole.sinks) == (True, False)


@every("kind", ["cpmant", "mpnet"])
def test_two_types_may_be_refused_for_one_reason(kind: str) -> None:
    """One is told among decoders, one among those that fill in masks."""
    assert "relative positions in buckets" in fault(model_type=kind)
