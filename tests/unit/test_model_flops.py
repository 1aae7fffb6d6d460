"""Model FLOPs: what Megatron-LM prints for the same model, and what its authors' papers print."""

from __future__ import annotations

import pytest

from planner.cost.flops import product_weights, step_flops
from planner.inputs.load import load_model
from tests.cases import every


@every(
    ("name", "layers", "hidden", "sequences"),
    [("megatron-1.7b", 24, 2304, 512), ("gpt3-175b", 96, 12288, 1536), ("megatron-530b", 105, 20480, 2520)],
)
def test_the_formula_of_the_megatron_paper(name: str, layers: int, hidden: int, sequences: int) -> None:
    """arXiv:2104.04473, eq. 3: F = 96 B s l h^2 (1 + s/(6h) + V/(16 l h)), with full recompute.

    Without it 72 stands for 96 and V/(12 l h) for V/(16 l h); of causal attention half: s/(12h).
    """
    model = load_model(name)
    assert (model.num_layers, model.hidden) == (layers, hidden)
    inner = 1 + 2048 / (12 * hidden) + model.vocab / (12 * layers * hidden)
    expected = 72 * sequences * 2048 * layers * hidden**2 * inner
    assert step_flops(model, 2048, sequences * 2048) == pytest.approx(expected, rel=1e-12)


def test_six_times_the_parameters_is_most_of_it() -> None:
    """arXiv:2001.08361, sec. 2.1: 6 N for each token, N without embedding; attention and head come on top."""
    model = load_model("gpt3-175b")
    blocks = model.params - model.embedding_params - model.head_params
    share = 6 * blocks / step_flops(model, 2048, 1)
    assert 0.95 < share < 1


def test_a_window_counts_the_keys_that_are_seen() -> None:
    """By brute force over the queries of one sequence."""
    from tests.unit.cost_jobs import MODELS, model

    sliding = MODELS["sliding"]
    window = next(block.mixer.window for block in sliding.blocks.values() if block.mixer.window)
    whole = model("whole", {"b": sliding.blocks["b"].model_dump()}, "12 b")
    seq, width = 2048, 2 * 16 * 128
    unseen = sum(max(0, query - window) for query in range(seq)) + seq / 2 - (seq - window) / 2
    lost = 3 * 2 * sliding.layers.count("a") * width * unseen
    assert step_flops(whole, seq, seq) - step_flops(sliding, seq, seq) == pytest.approx(lost, rel=1e-3)


def test_the_products_of_deepseek_v3_by_hand() -> None:
    """Projections and inner norms of latent attention, nine experts of a token without the router.

    arXiv:2412.19437, sec. 4.2: hidden 7,168, 128 heads of 128 + 64 and 128, ranks 1,536 and 512.
    """
    model = load_model("deepseek-v3")
    query = 7168 * 1536 + 1536 * 128 * (128 + 64)
    key_value = 7168 * (512 + 64) + 512 * 128 * (128 + 128)
    attention = query + key_value + 128 * 128 * 7168 + 1536 + 512
    dense, routed = (model.blocks[name] for name in dict.fromkeys(model.layers))
    assert product_weights(dense, 7168) == attention + 3 * 7168 * 18432
    assert product_weights(routed, 7168) == attention + 9 * 3 * 7168 * 2048
