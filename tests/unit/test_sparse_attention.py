"""Latent attention whose keys an indexer picks: parameters, arithmetic, rules, Megatron-LM's flags."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.cost.case import Case, case_of
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.communication import block_exchanges
from planner.cost.layer.context_parallel import gathered_bytes
from planner.cost.layer.operators import Operator, Pricer
from planner.cost.layer.sparse_attention import index_exchange
from planner.cost.legal import all_rules
from planner.errors import InputError
from planner.inputs.hf_config import model_from_config
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.mixers.indexer import Indexer
from planner.inputs.model import LatentAttention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.imports.sheet import Sheet
from planner.runtimes.megatron_bridge.sections import model_section
from planner.runtimes.megatron_lm.reading.megatron_mixers import indexer_record
from planner.runtimes.megatron_lm.sparse import indexer_flags, indexer_of
from tests.cases import every
from tests.cli.command import planner

CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v32", "hidden_size": 7168, "vocab_size": 129280, "num_hidden_layers": 61,
    "first_k_dense_replace": 3, "intermediate_size": 18432, "moe_intermediate_size": 2048,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "num_attention_heads": 128,
    "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048,
    "num_nextn_predict_layers": 1, "max_position_embeddings": 163840, "tie_word_embeddings": False,
}  # fmt: skip
"""DeepSeek-V3.2's ``config.json``, what this reads of it."""


def sparse() -> ModelSpec:
    return model_from_config(CONFIG, "config.json", "deepseek-v3.2").model


def job(model: ModelSpec, seq_len: int = 32768, **fields: Any) -> Job:
    work = Workload(seq_len=seq_len, global_batch=8, **fields)
    return Job(model=model, hardware=load_hardware("dgx-h100"), workload=work, gpus=8)


def case(model: ModelSpec, seq_len: int = 32768, **fields: Any) -> Case:
    return case_of(Plan(dp=8.0), job(model, seq_len, **fields), runtimes()["megatron-lm"])


def operators(model: ModelSpec, seq_len: int = 32768, **degrees: Any) -> dict[str, Operator]:
    layer = priced_layer(Pricer(case(model, seq_len), Plan(**degrees)), "moe")
    return {operator.name: operator for operator in layer.operators}


def broken(model: ModelSpec, name: str, release: str = "", **fields: Any) -> set[str]:
    runtime = replace(runtimes()[name], release=release)
    plan = Plan(**{"dp": 8.0, **fields})
    found = violations(all_rules(plan, case_of(plan, job(model), runtime)))
    return {one.rule for one in found}


def test_an_index_has_the_parameters_of_the_authors_code() -> None:
    """Their safetensors hold 685B (the card of DeepSeek-V3.2-Exp), with the extra prediction layer."""
    model, dense = sparse(), load_model("deepseek-v3")
    each = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64
    assert Indexer(heads=64, head_dim=128, topk=2048).params(7168, 1536) == each == 13_959_424
    assert model.params == dense.params + 61 * each == 671_877_929_216
    assert model.active_params == dense.active_params + 61 * each
    assert (model.params + model.prediction_params) / 1e9 == pytest.approx(685, abs=2)
    assert model.numerics.router == dense.numerics.router


def test_products_on_compressed_keys_weigh_what_rebuilding_them_does() -> None:
    """Absorbed: the same weights and FLOPs as one product that rebuilds keys and values."""
    made, dense = operators(sparse()), operators(load_model("deepseek-v3"))["key_value_up"]
    taken = [made["query_absorb"], made["value_up"]]
    assert sum(float(one.params) for one in taken) == float(dense.params)
    assert sum(float(one.flops) for one in taken) == float(dense.flops)


def test_the_core_grows_with_the_sequence_and_the_index_with_its_square() -> None:
    """Core attention O(L k) in place of O(L^2), the index O(L^2) (arXiv:2512.02556, sec. 2.1)."""
    short, long = operators(sparse(), 65536), operators(sparse(), 131072)
    assert float(long["attention"].flops) == pytest.approx(2 * float(short["attention"].flops), rel=0.02)
    assert float(long["index_scores"].flops) == 4 * float(short["index_scores"].flops)
    core = 4.0 * 131072 * 128 * (2048 - 2048**2 / 2 / 131072) * (576 + 512) / 2
    assert float(long["attention"].flops) == pytest.approx(core)
    assert float(long["index_scores"].flops) == 2.0 * 131072 * 65536 * 64 * 128
    dense = operators(load_model("deepseek-v3"), 131072)
    paid = sum(float(long[name].forward) for name in ("attention", "index_scores", "index_query"))
    assert paid < 0.6 * float(dense["attention"].forward)


def test_the_core_runs_at_the_rate_that_its_authors_print() -> None:
    """Sparse prefill: 640 TFLOP/s on H800 (deepseek-ai/FlashMLA, README.md), the same die as H100."""
    found = case(sparse(), 65536)
    core = operators(sparse(), 65536)["attention"]
    alone = float(core.forward) * found.derate * found.traits.attention.share
    assert float(core.flops) / alone == pytest.approx(640e12, rel=0.15)
    assert float(core.outside_forward) == pytest.approx(float(core.forward))


def test_tensor_parallel_ranks_divide_the_core_and_not_the_index() -> None:
    """Megatron-LM's index is ``duplicated``; its inputs are gathered and its target is summed over ranks."""
    one, eight = operators(sparse()), operators(sparse(), tp=8.0)
    assert float(eight["attention"].flops) == float(one["attention"].flops) / 8
    assert float(eight["index_scores"].flops) == float(one["index_scores"].flops)
    assert float(eight["index_query"].params) == 1536 * 64 * 128
    found = case(sparse())
    model = found.model
    sent = index_exchange(Pricer(found, Plan(tp=8.0)), model.blocks["moe"]).forward_sent
    whole = 32768 * (2 * (7168 + 1536) * found.sequence_parallel + 2 * 4 * 2048)
    assert float(sent) == pytest.approx(whole * 7 / 8)
    assert float(index_exchange(Pricer(found, Plan()), model.blocks["moe"]).forward) == 0.0
    plain = load_model("deepseek-v3").blocks["moe"]
    assert index_exchange(Pricer(found, Plan(tp=8.0)), plain).forward == 0.0


def test_context_parallel_ranks_gather_compressed_keys_and_those_of_the_index() -> None:
    """512 + 64 elements for all heads, and 128 of the index; dense attention has 128 heads of its own."""
    plan = Plan(cp=8.0, cp_method="all-gather")
    found = case_of(plan, job(sparse()), runtimes()["megatron-lm"])
    mixer = found.model.blocks["moe"].attention
    assert isinstance(mixer, LatentAttention)
    few = float(gathered_bytes(found, plan, 4096.0, mixer))
    dense = mixer.model_copy(update={"indexer": None})
    many = float(gathered_bytes(found, plan, 4096.0, dense))
    assert few / many == pytest.approx((576 + 128) / (128 * (192 + 128)))
    pricer = Pricer(found, plan)
    block = found.model.blocks["moe"]
    layer = priced_layer(pricer, "moe")
    assert float(block_exchanges(pricer, block, list(layer.operators)).cp.forward_sent) > 0


def test_backward_keeps_the_numbers_of_the_picked_keys_and_a_block_of_scores() -> None:
    scores = operators(sparse())["index_scores"]
    assert float(scores.saved) == 4 * 32768 * 2048
    assert float(scores.result) == 4 * 8192 * 32768


@every(
    ("fields", "rule"),
    [
        ({"release": "0.19"}, "release-has-indexers"),
        ({"dp": 1.0, "cp": 8.0, "cp_method": "ring"}, "indexer-gathers-keys"),
        ({"dp": 1.0, "cp": 8.0, "cp_method": "all-gather"}, ""),
        ({}, ""),
    ],
)
def test_megatron_builds_it_with_the_keys_of_all_ranks(fields: dict[str, Any], rule: str) -> None:
    ours = {
        one for one in broken(sparse(), "megatron-lm", **fields) if "indexer" in one or "cp-method" in one
    }
    assert ours == ({rule} | ({"cp-method-offered"} if "keys" in rule else set())) - {""}
    if "release" not in fields:
        bridge = broken(sparse(), "megatron-bridge", **fields)
        assert {one for one in bridge if "indexer" in one or "cp-method" in one} == ours


@every(("graphed", "refused"), [("", False), ("router", False), ("attention", True), ("passes", True)])
@every("name", ["megatron-lm", "megatron-bridge"])
def test_graphs_hold_no_attention_with_an_index(name: str, graphed: str, refused: bool) -> None:
    """Nothing in Megatron-core's code or tests captures it; its kernels drop scratch that graphs write."""
    runtime = runtimes()[name]
    told = replace(runtime, traits=runtime.traits.with_values(graphed=graphed))
    for model, expected in ((sparse(), refused), (load_model("deepseek-v3"), False)):
        found = violations(told.setting_rules(Plan(dp=8.0), job(model), told))
        assert ("graphs-hold-no-indexer" in {one.rule for one in found}) is expected


@every("name", sorted(set(runtimes()) - {"megatron-lm", "megatron-bridge"}))
def test_other_runtimes_say_that_they_do_not_build_it(name: str) -> None:
    assert any(rule.startswith("model-in-") for rule in broken(sparse(), name))


@every("name", ["megatron-lm", "megatron-bridge"])
def test_adapters_beside_an_index_are_refused(name: str) -> None:
    found = job(sparse(), method="lora")
    plan = Plan(dp=8.0)
    rules = all_rules(plan, case_of(plan, found, runtimes()[name]))
    assert "indexer-trains-whole" in {one.rule for one in violations(rules)}


@every("interleaved", [False, True])
def test_flags_are_written_and_read_back(interleaved: bool) -> None:
    indexer = Indexer(heads=64, head_dim=128, topk=2048, interleaved=interleaved)
    flags = indexer_flags(indexer)
    assert indexer_flags(None) == []
    keys = [position for position, word in enumerate(flags) if word.startswith("--")]
    said = {
        flags[at]: flags[at + 1] if at + 1 < len(flags) and not flags[at + 1].startswith("--") else True
        for at in keys
    }
    assert indexer_record(Sheet("script", said)) == indexer.model_dump()
    assert indexer_record(Sheet("script", {})) is None


@every(
    ("key", "value"),
    [
        ("index_topk_freq", 4),
        ("index_topk_pattern", "FSSF"),
        ("index_topk_pattern", ["full", "shared"]),
        ("indexer_types", ["full", "shared"]),
    ],
)
def test_an_index_that_layers_share_is_refused_by_name(key: str, value: object) -> None:
    """GLM-5.2 has an index in every fourth layer (Transformers v5.24.0, ``GlmMoeDsaConfig``)."""
    for kind in ("glm_moe_dsa", "deepseek_v32"):
        with pytest.raises(InputError, match=key):
            model_from_config(CONFIG | {"model_type": kind, key: value}, "config.json", "m")


@every(("key", "value"), [("index_topk_freq", 1), ("indexer_types", ["full"] * 61)])
def test_an_index_in_every_layer_is_taken_however_it_is_said(key: str, value: object) -> None:
    assert model_from_config(CONFIG | {key: value}, "config.json", "m").model.params == sparse().params


@every("name", ["deepseek-v3.2", "glm-5"])
def test_the_models_that_have_one_are_in_the_zoo_and_written_for_megatron(name: str) -> None:
    """For Megatron-Bridge with the fields of its GLM-5; it has no recipe of DeepSeek-V3.2."""
    model = load_model(name)
    indexer = indexer_of(model)
    assert indexer is not None
    # GLM-5's index turns neighbours and is not rotated (Megatron-Bridge 067f987d, glm5_bridge.py).
    assert ("--no-dsa-indexer-rotate-activation" in indexer_flags(indexer)) is (name == "glm-5")
    fields = model_section(Plan(dp=8.0), job(model))
    assert fields["experimental_attention_variant"] == "dsa"
    assert ("dsa_indexer_rotate_activation" in fields) is (name == "glm-5")
    assert [fields[f"dsa_indexer_{part}"] for part in ("n_heads", "head_dim", "topk")] == [
        indexer.heads, indexer.head_dim, indexer.topk,
    ]  # fmt: skip


@pytest.mark.parametrize(("runtime", "file"), [("megatron-lm", "train.sh"), ("megatron-bridge", "train.py")])
@pytest.mark.parametrize(
    ("name", "layers"),
    [("glm-5", (6, *(5,) * 14, 2)), ("deepseek-v3.2", (4, *(4,) * 14, 1))],
)
def test_what_is_written_is_read_back(
    name: str, layers: tuple[int, ...], runtime: str, file: str, tmp_path: Path
) -> None:
    cluster = ("--hardware", "dgx-h200", "--gpus", "512")
    work = ("--seq-len", "8192", "--global-batch", "1024", "--cp-method", "all-gather", "--zero", "1")
    degrees = ("--pp", "16", "--cp", "4", "--ep", "16", "--stage-layers", ",".join(map(str, layers)))
    saved, out = str(tmp_path / "p.yaml"), str(tmp_path / "o")
    priced = planner(
        "estimate", name, "--runtime", runtime, *cluster, *work, *degrees, "--save", saved, "--format", "json"
    ).json
    assert priced["violations"] == []
    assert planner("emit", saved, "--out", out, "--unfit").code == 0
    read = planner("estimate", "--from", f"{out}/{file}", *cluster, "--format", "json").json
    assert read["plan"] == priced["plan"]
    assert read["model"]["params"] == priced["model"]["params"]
    assert read["step_time_s"] == pytest.approx(priced["step_time_s"], rel=1e-9)
