"""The model record: parameters by hand, the order of layers, and what is refused."""

from __future__ import annotations

import pytest

from planner.errors import InputError
from planner.inputs.build import build
from planner.inputs.layers import layers_text, parse_layers
from planner.inputs.model import Attention, DenseFfn, Experts, LatentAttention, ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.yaml_file import parse_yaml
from tests.cases import every
from tests.unit.published_counts import published_params

SMALL = """
name: small
hidden: 8
vocab: 10
tied_embeddings: false
blocks:
  dense:
    mixer: {kind: attention, heads: 4, kv_heads: 2, head_dim: 3}
    ffn: {kind: dense, inner: 5}
  moe:
    mixer: {kind: attention, heads: 4, kv_heads: 2, head_dim: 3}
    ffn: {kind: moe, experts: 6, topk: 2, inner: 7, shared_inner: 3}
layers: 1 dense, 2 moe
prediction: {layers: 1, block: moe}
"""


def small(text: str = SMALL) -> ModelSpec:
    return build(ModelSpec, parse_yaml(text, "small.yaml"), "small.yaml")


def test_attention_by_hand() -> None:
    # q and o: 8 x 12 each; k and v: 8 x 6 each
    assert Attention(heads=4, kv_heads=2, head_dim=3).params(8) == 96 + 96 + 48 + 48
    # biases: q 12, k and v 6 each, o 8; head norms 2 x 3, full norms 12 + 6; one sink a head
    plain = 288
    assert (
        Attention(heads=4, kv_heads=2, head_dim=3, qkv_bias=True, output_bias=True).params(8)
        == plain + 24 + 8
    )
    assert Attention(heads=4, kv_heads=2, head_dim=3, qk_norm="head").params(8) == plain + 6
    assert Attention(heads=4, kv_heads=2, head_dim=3, qk_norm="full").params(8) == plain + 18
    assert Attention(heads=4, kv_heads=2, head_dim=3, sinks=True).params(8) == plain + 4
    # values of width 2: v 8 x 4, o 8 x 8
    assert Attention(heads=4, kv_heads=2, head_dim=3, v_head_dim=2).params(8) == 96 + 48 + 32 + 64


def test_latent_attention_by_hand() -> None:
    mixer = LatentAttention(
        heads=2, q_lora_rank=3, kv_lora_rank=4, qk_nope_head_dim=5, qk_rope_head_dim=1, v_head_dim=6
    )
    query = 8 * 3 + 3 + 3 * 2 * 6
    key_value = 8 * (4 + 1) + 4 + 4 * 2 * (5 + 6)
    assert mixer.params(8) == query + key_value + 2 * 6 * 8
    assert mixer.model_copy(update={"q_lora_rank": 0}).params(8) == 8 * 2 * 6 + key_value + 2 * 6 * 8


def test_feed_forward_by_hand() -> None:
    assert DenseFfn(inner=5).params(8) == 3 * 40
    assert DenseFfn(inner=5, gated=False, bias=True).params(8) == 2 * 40 + 5 + 8
    experts = Experts(experts=6, topk=2, inner=7, shared_inner=3, shared_gate=True, router_bias=True)
    assert experts.params(8) == 6 * 3 * 56 + 3 * 24 + 8 + (8 + 1) * 6
    assert experts.active_params(8) == 2 * 3 * 56 + 3 * 24 + 8 + (8 + 1) * 6


def test_a_model_adds_up_by_hand() -> None:
    model = small()
    dense = 288 + 120 + 16
    moe = 288 + 6 * 168 + 72 + 48 + 16
    assert model.runs == (("dense", 1), ("moe", 2))
    assert model.params == dense + 2 * moe + 80 + 80 + 8
    assert model.active_params == model.params - 2 * 4 * 168
    assert model.prediction_params == moe + 2 * 8 * 8 + 3 * 8


def test_tied_embeddings_learned_positions_and_biased_norms_by_hand() -> None:
    text = SMALL.replace(
        "tied_embeddings: false", "tied_embeddings: true\nlearned_positions: true\nmax_positions: 5"
    )
    assert small(text).params == small().params - 80 + 5 * 8
    assert small(SMALL + "norm: layernorm\nnorm_bias: true\n").params == small().params + (3 * 2 + 1) * 8


def test_published_parts_are_left_out() -> None:
    said = "params: 3B, params_without: [embedding, head], with_prediction: true, active_without: [head]"
    model = small(f"{SMALL}published: {{{said}}}")
    assert published_params(model, active=False) == model.params + model.prediction_params - 160
    assert published_params(model, active=True) == model.active_params - 80


@every(
    ("text", "layers"),
    [
        ("2 dense", ["dense", "dense"]),
        ("dense", ["dense"]),
        ("1 a, 2 b-c", ["a", "b-c", "b-c"]),
        ("2x(a, 2 b), a", ["a", "b", "b", "a", "b", "b", "a"]),
        ("2 x (1 x (a, b))", ["a", "b", "a", "b"]),
        ("3 x a", ["a", "a", "a"]),
        ("2 x1", ["x1", "x1"]),
    ],
)
def test_the_order_of_layers_is_read(text: str, layers: list[str]) -> None:
    assert parse_layers(text) == tuple(layers)


@every(
    "text",
    [
        "", ",", "3", "3 4 a", "a,", "(a", "a)", "2 x", "0 a", "10001 a", "a b", "2 x (a", "-1 a", "1.5 a",
        "9999999999999999999 a", "100 x (100 x (2 a))", "(" * 50 + "a" + ")" * 50, "3a", "a; b",
    ],
)  # fmt: skip
def test_a_broken_order_of_layers_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 -- each has its own words
        parse_layers(text)


@every(
    ("layers", "text"),
    [
        (["a"] * 80, "80 a"),
        (["a", *["b"] * 3], "1 a, 3 b"),
        ([*(["s"] * 5 + ["f"]) * 10, "s", "s"], "10 x (5 s, 1 f), 2 s"),
        (["d", *["s", "s", "f"] * 4], "1 d, 4 x (2 s, 1 f)"),
        (["a", "b", "a"], "1 a, 1 b, 1 a"),
    ],
)
def test_the_order_of_layers_is_written_short(layers: list[str], text: str) -> None:
    assert layers_text(layers) == text
    assert parse_layers(text) == tuple(layers)


@every(
    ("old", "new", "words"),
    [
        ("1 dense, 2 moe", "1 dense, 2 mo", "nearest: moe"),
        ("1 dense, 2 moe", "2 moe", "block dense"),
        ("kv_heads: 2", "kv_heads: 3", "kv_heads"),
        ("topk: 2", "topk: 7", "topk"),
        (
            "head_dim: 3}\n    ffn: {kind: dense",
            "head_dim: 3, chunked: true}\n    ffn: {kind: dense",
            "window",
        ),
        ("vocab: 10", "vocab: 10\nlearned_positions: true", "max_positions"),
        ("block: moe", "block: extra", "extra"),
        ("  moe:", "  prediction:", "another name than prediction"),
        ("hidden: 8", "hidden: '8'", "without quotes"),
        ("hidden: 8", "hidden: 1e300", "sensible size"),
        ("kind: moe", "kind: experts", "one of dense, moe"),
        ("hidden: 8", "hidden: 8\npublished: {params: many}", "published.params"),
    ],
)
def test_a_wrong_model_is_refused_with_the_reason(old: str, new: str, words: str) -> None:
    assert old in SMALL
    with pytest.raises(InputError, match=words):
        small(SMALL.replace(old, new))


def test_a_model_is_written_as_it_is_read() -> None:
    text = SMALL + 'aliases: [s, org/S]\nnote: \'no: yes, "quoted" and long ' + "word " * 40 + "'\n"
    model = small(text)
    assert small(model_yaml(model)) == model.model_copy(update={"note": " ".join(model.note.split())})
