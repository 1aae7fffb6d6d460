"""Attention whose keys are picked in blocks (MiniMax-M3): imported exactly, priced, written by nobody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import case_of
from planner.cost.layer.blocks import block_operators
from planner.cost.layer.operators import Pricer
from planner.cost.memory.padding import block_parameters
from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.model import Attention, ModelSpec
from planner.inputs.model_yaml import model_yaml
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every

M3: dict[str, Any] = {
    "model_type": "minimax_m3", "hidden_size": 6144, "intermediate_size": 3072, "num_hidden_layers": 60,
    "dense_intermediate_size": 12288, "shared_intermediate_size": 3072, "n_shared_experts": 1,
    "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "rotary_dim": 64,
    "vocab_size": 200064,
    "num_local_experts": 128, "num_experts_per_tok": 4, "routed_scaling_factor": 2.0, "rms_norm_eps": 1e-6,
    "scoring_func": "sigmoid", "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "num_nextn_predict_layers": 1,
    "moe_layer_freq": [0] * 3 + [1] * 57, "tie_word_embeddings": False, "max_position_embeddings": 524288,
    "sparse_attention_config": {
        "use_sparse_attention": True, "sparse_index_dim": 128, "sparse_num_index_heads": 4,
        "sparse_block_size": 128, "sparse_topk_blocks": 16, "sparse_local_block": 1,
        "sparse_attention_freq": [0] * 3 + [1] * 57,
    },
}  # fmt: skip
"""As the checkpoint spells it: transformers 5.23 counts 426,174,565,632 parameters on meta tensors."""


def m3(**changes: Any) -> ModelSpec:
    raw = {"model_type": "minimax_m3_vl", "text_config": M3 | changes, "vision_config": {"hidden_size": 1280}}
    return model_from_config(raw, "config.json", "minimax-m3").model


def test_minimax_m3_is_imported_as_its_checkpoint_spells_it(tmp_path: Path) -> None:
    model = m3()
    assert model.params == 426_174_565_632
    assert model.encoder is None
    assert "vision" in model.note
    assert "num_nextn_predict_layers is not read" in model.note
    assert model.numerics.activation == "swiglu_oai"
    assert model.numerics.rope_fraction == 0.5
    kinds = [model.blocks[name].attention for name in model.layers]
    assert [bool(isinstance(one, Attention) and one.indexer) for one in kinds] == [False] * 3 + [True] * 57
    path = tmp_path / "m3.yaml"
    path.write_text(model_yaml(model), "utf-8")
    assert load_model(str(path)) == model


def test_an_index_that_is_switched_off_is_none() -> None:
    off = M3["sparse_attention_config"] | {"use_sparse_attention": False}
    model = m3(sparse_attention_config=off)
    assert m3().params - model.params == 57 * (6144 * 5 * 128 + 2 * 128)


@every(
    ("changes", "found"),
    [({"swiglu_limit": 5.0}, "swiglu_limit"), ({"n_shared_experts": 2}, "n_shared_experts")],
)
def test_what_is_other_is_refused(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(InputError, match=found):
        m3(**changes)


def test_an_index_has_a_head_for_each_of_keys_and_values(tmp_path: Path) -> None:
    path = tmp_path / "m3.yaml"
    path.write_text(model_yaml(m3()).replace("indexer: {heads: 4", "indexer: {heads: 8"), "utf-8")
    with pytest.raises(InputError, match="heads are those of keys and values"):
        load_model(str(path))


def test_the_index_and_the_keys_it_picks_are_priced() -> None:
    """16,384 tokens: 2,048 keys of up to as many, products of 4 and 1 heads, forward alone."""
    model, plan, tokens = m3(), Plan(), 16384
    job = Job(model, load_hardware("dgx-h100"), 1, Workload(seq_len=tokens, global_batch=1))
    pricer = Pricer(case_of(plan, job, runtimes()["megatron-lm"]), plan)
    found = {one.name: one for one in block_operators(pricer, model.blocks[model.layers[-1]])}
    assert float(found["index_query"].flops) == 2 * tokens * 6144 * 512
    assert float(found["index_key"].flops) == 2 * tokens * 6144 * 128
    assert float(found["index_scores"].flops) == pytest.approx(2 * tokens * (tokens + 1) / 2 * 512, rel=1e-3)
    assert [float(found[f"index_{name}"].backward) for name in ("query", "key", "norm", "scores")] == [
        0.0
    ] * 4
    assert float(found["index_scores"].saved) == 4 * tokens * 4 * 16
    keys = 2048 - 2048**2 / 2 / tokens
    assert float(found["attention"].flops) == pytest.approx(2 * 2 * tokens * keys * 64 * 128, rel=1e-3)
    block = model.blocks[model.layers[-1]]
    whole = block.params(6144, 6144)
    assert sum(float(one.params) for one in found.values()) == whole
    routed = 128 * 3 * 6144 * 3072
    parts = block_parameters(block, 6144, 1.0, 1.0)
    assert sum(float(one.rows * one.columns) for one in parts) == whole - routed


def test_no_runner_takes_it_for_attention_to_all() -> None:
    """Megatron-Bridge keeps the index and attends to all keys: another model beyond 2,048 tokens."""
    job = Job(m3(), load_hardware("dgx-h100"), 512, Workload(seq_len=4096, global_batch=512))
    for name, runtime in runtimes().items():
        assert "an indexer that picks" in runtime.cannot_train(job), name


def test_its_shape_is_in_the_small_configs() -> None:
    cases = json.loads((Path(__file__).parent / "data" / "hf_small_configs.json").read_text())["cases"]
    assert "minimax_m3_vl_text" in [case["config"]["model_type"] for case in cases]
