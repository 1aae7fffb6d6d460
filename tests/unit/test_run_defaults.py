"""Rows become what can be priced: blanks by rule, each named; contradictions refused with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.calibrate.runs.catalogue import Catalogue, accelerator_file, shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.facts import Fact
from planner.calibrate.runs.plan import recompute_name, stated_layers, weighed_layers
from planner.calibrate.runs.table import Run, read_runs
from planner.cost.case import case_of
from planner.cost.memory.weights import StageWeights
from planner.cost.traffic.data_parallel import data_parallel_sent
from planner.inputs.model import Attention, DenseFfn, Experts, LatentAttention
from tests.cases import every

DENSE = Run(
    line=7,
    id="x-1",
    source="nowhere",
    gpu="a100-80gb-sxm",
    num_gpus=64,
    model="own",
    framework="megatron-core 0.12",
    num_layers=32,
    hidden=4096,
    heads=32,
    seq_len=2048,
    tp=4,
    pp=2,
    dp=8,
    micro_batch=2,
    global_batch=256,
    step_time_s=30.0,
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    shipped = shipped_catalogue()
    bridge = replace(shipped.runtimes["megatron-lm"], name="megatron-bridge")
    return replace(shipped, runtimes={"megatron-bridge": bridge, **shipped.runtimes})


def ready(run: Run, catalogue: Catalogue) -> PricedRun:
    found = prepare(run, catalogue)
    assert isinstance(found, PricedRun), found
    return found


def reason(run: Run, catalogue: Catalogue) -> str:
    found = prepare(run, catalogue)
    assert isinstance(found, Skip)
    assert found.id == run.id
    return found.reason


def test_a_full_row_is_its_own_plan(catalogue: Catalogue) -> None:
    found = ready(DENSE, catalogue)
    plan, job = found.plan, found.job
    assert (plan.tp, plan.pp, plan.dp, plan.micro_batch, plan.num_microbatches) == (4, 2, 8, 2, 16)
    assert (plan.zero, plan.zero_shards, plan.schedule, plan.stage_layers) == (1, 8, "1f1b", None)
    assert (job.gpus, job.workload.seq_len, job.workload.global_batch) == (64, 2048, 256)
    assert job.hardware.pool.accelerator.name == "a100-80gb-sxm"
    assert (found.measured.seconds, found.measured.basis, found.task) == (30.0, "step_time_s", "pretrain")


def test_a_row_that_shards_nothing_reduces_its_gradients_whole(catalogue: Catalogue) -> None:
    """arXiv:1910.02054, sec. 7.1: 2 Psi in an all-reduce, here of fp32 gradients over 8 ranks."""
    found = ready(DENSE.with_values({"zero": "0"}), catalogue)
    assert (found.plan.zero, found.plan.zero_shards) == (0, 1)
    case = case_of(found.plan, found.job, found.runtime)
    held = StageWeights(2e9, 0.0, 1e9, 0.0)
    assert data_parallel_sent(case, found.plan, held) == pytest.approx(2 * 7 / 8 * 4e9)


@every(
    ("notes", "shards"),
    [
        ("optimizer states sharded: zero1 over 4 GPUs; gradient accumulation 4", 4),
        ("optimizer states sharded inside 8 GPUs", 8),
        ("optimizer states sharded: zero1; gradient accumulation 4", 8),
        ("optimizer states sharded inside 64 GPUs", 8),
    ],
)
def test_notes_say_among_how_many_states_are_spread(notes: str, shards: float, catalogue: Catalogue) -> None:
    assert ready(DENSE.with_values({"notes": notes}), catalogue).plan.zero_shards == shards


@every(
    ("framework", "taken", "named"),
    [
        ("megatron-bridge", "0.6", ""),
        ("megatron-bridge, NeMo container 26.04", None, "0.4"),
        ("torchtitan, 2025", "0.2.1", ""),
    ],
)
def test_a_text_without_a_release_says_which_one_is_taken(
    framework: str, taken: str | None, named: str, catalogue: Catalogue
) -> None:
    found = ready(DENSE.with_values({"framework": framework, "gpu": "gb300", "zero": "1"}), catalogue)
    assert (found.defaults.get("release"), found.release) == (taken, named)


def test_every_value_taken_for_a_blank_is_listed(catalogue: Catalogue) -> None:
    found = ready(DENSE, catalogue)
    assert found.defaults == {
        "release": "0.19",
        "gpus_per_node": 8,
        "ffn_hidden": 16384,
        "gated_mlp": 0,
        "kv_heads": 32,
        "head_dim": 128,
        "vocab": 51200,
        "tied_embeddings": 1,
        "cp": 1,
        "vpp": 1,
        "zero": "1",
        "seq_parallel": 1,
        "recompute": "none",
        "precision": "bf16",
        "schedule": "1f1b",
        "offload": "none",
        "interconnect": "nvlink3-switch-8 + 8 x 200 Gbit/s infiniband-hdr",
        "flash_attn": "the accelerator's best",
        "fused_norm": 1,
    }


def test_layers_on_the_host_are_those_of_the_row(catalogue: Catalogue) -> None:
    found = ready(DENSE.with_values({"offload": "activations:20-layers"}), catalogue)
    assert (found.plan.offload, found.run.offload) == ("activations:20", "activations:20-layers")
    assert "offload" not in found.defaults


def test_what_a_row_states_is_not_listed(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"gpus_per_node": 8, "cp": 1, "zero": "0", "vocab": 32000, "precision": "fp16"})
    assert not {"gpus_per_node", "cp", "zero", "vocab", "precision"} & set(ready(run, catalogue).defaults)


def test_a_bare_accelerator_is_taken_for_its_usual_part_and_said(catalogue: Catalogue) -> None:
    assert ready(DENSE.with_values({"gpu": "A100"}), catalogue).defaults["gpu"] == "a100-80gb-sxm"


@every(
    ("changes", "words"),
    [
        ({"dp": 4}, ["row 7, column num_gpus", "64 but tp 4 · pp 2 · cp 1 · dp 4 = 32"]),
        (
            {"step_time_s": 0.3},
            ["row 7, column step_time_s", "of the a100-80gb-sxm's dense bf16 peak", "100%"],
        ),
        ({"step_time_s": None, "tokens_per_s_per_gpu": 1e6}, ["tokens_per_s_per_gpu", "dense bf16 peak"]),
        ({"tokens_per_s_per_gpu": 100.0}, ["step_time_s 30", "means 81.92 s", "agree within 10%"]),
        ({"gpu": "a1000"}, ["column gpu", "'a1000'", "nearest:"]),
        ({"gpu": "../../etc/passwd"}, ["column gpu", "a known accelerator"]),
        ({"gpu": ""}, ["column gpu", "blank"]),
        ({"framework": "tensorflow"}, ["row 7, column framework", "'tensorflow'"]),
        ({"framework": "megatrn-lm"}, ["column framework", "'megatrn-lm'", "nearest: megatron-lm"]),
        ({"framework": "TorchTitn"}, ["column framework", "'TorchTitn'", "nearest: torchtitan"]),
        ({"framework": ""}, ["row 7, column framework: found blank"]),
        ({"precision": "int3"}, ["column precision", "'int3'", "bf16"]),
        ({"precision": "fp8"}, ["column precision", "'fp8' on a100-80gb-sxm", "bf16, fp16"]),
        (
            {"precision": "bf16", "gpu": "v100-32gb", "step_time_s": 99.0},
            ["'bf16' on v100-32gb", "fp16, fp32"],
        ),
        ({"schedule": "zigzag"}, ["column schedule", "'zigzag'", "1f1b"]),
        ({"offload": "moon"}, ["column offload", "'moon'"]),
        ({"offload": "activations"}, ["column offload", "'activations'", "activations:N"]),
        ({"recompute": "sometimes"}, ["column recompute", "'sometimes'"]),
        ({"seq_len": None}, ["column seq_len", "blank"]),
        ({"num_layers": None}, ["row 7, column model: found 'own'", "or its num_layers, which", "blank"]),
        (
            {"model": "lama3-70b", "hidden": None, "heads": None, "num_layers": None},
            ["column model: found 'lama3-70b'", "num_layers, hidden, heads", "nearest: llama3-70b"],
        ),
        ({"model": "", "num_layers": None}, ["column num_layers", "blank"]),
        ({"model": "gpt3-175b", "hidden": 512, "num_layers": None}, ["column num_layers", "blank"]),
        ({"num_layers": 20_000_000}, ["column num_layers", "at most 10000"]),
        ({"micro_batch": 3}, ["column global_batch", "256 over micro-batch 3 · dp 8", "whole number"]),
        ({"micro_batch": 64}, ["column global_batch", "256 over micro-batch 64 · dp 8", "at least one"]),
        ({"global_batch": 4, "pp": 1, "dp": 16}, ["column global_batch", "at least one"]),
        ({"ep": 4}, ["experts-divide", "no experts"]),
        ({"experts": 8, "topk": 9, "moe_ffn": 1024}, ["row 7, column topk: found 9", "at most 8 experts"]),
        ({"experts": 8, "moe_ffn": 1024}, ["column model: found 'own'", "its topk, which", "blank"]),
        ({"experts": 8, "topk": 2, "moe_ffn": 512, "ep": 3}, ["experts-divide", "ep 3"]),
        ({"step_time_s": None}, ["row 7: neither time, memory nor outcome"]),
        ({"gpu": "h1000"}, ["row 7, column gpu: found 'h1000'", "nearest: h100"]),
        (
            {"step_time_s": None, "mfu_pct": 40.0},
            ["row 7, column flops_convention: found blank beside mfu_pct"],
        ),
        ({"tp": None, "dp": None, "zero": "1"}, ["column tp", "does not follow from the others"]),
    ],
)
def test_a_row_that_cannot_be_priced_says_why(
    changes: dict[str, object], words: list[str], catalogue: Catalogue
) -> None:
    text = reason(DENSE.with_values(changes), catalogue)
    assert [word for word in words if word not in text] == [], text


@every("oom", [0, 1])
def test_an_outcome_alone_is_enough(oom: int, catalogue: Catalogue) -> None:
    found = ready(DENSE.with_values({"step_time_s": None, "oom": oom}), catalogue)
    assert found.measured.seconds is None


def test_a_speed_just_below_the_peak_is_believed(catalogue: Catalogue) -> None:
    spec = ready(DENSE, catalogue).job.model
    products = spec.num_layers * 12 * 4096**2 + 51200 * 4096
    fastest = 6 * products * 2048 * 256 / 64 / 312e12
    assert "peak" in reason(DENSE.with_values({"step_time_s": fastest * 0.99}), catalogue)
    ready(DENSE.with_values({"step_time_s": fastest * 1.01}), catalogue)


def test_a_blank_degree_follows_from_the_others(catalogue: Catalogue) -> None:
    for name, value in (("tp", 4), ("pp", 2), ("dp", 8)):
        found = ready(DENSE.with_values({name: None}), catalogue)
        assert getattr(found.plan, name) == value
        assert found.defaults[name] == value
    assert ready(DENSE.with_values({"num_gpus": None}), catalogue).job.gpus == 64


def test_a_model_parallel_size_is_tensor_parallel_inside_the_node_first(catalogue: Catalogue) -> None:
    plan = ready(DENSE.with_values({"tp": None, "pp": None, "dp": 2}), catalogue).plan
    assert (plan.tp, plan.pp) == (8, 4)


def test_fully_sharded_runs_without_degrees_are_all_data_parallel(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"framework": "fsdp", "tp": None, "pp": None, "dp": None, "global_batch": 128})
    plan = ready(run, catalogue).plan
    assert (plan.tp, plan.pp, plan.dp, plan.zero, plan.num_microbatches) == (1, 1, 64, 3, 1)


def test_a_blank_batch_is_one_pass_without_a_pipeline(catalogue: Catalogue) -> None:
    flat = DENSE.with_values({"pp": 1, "dp": 16})
    assert ready(flat.with_values({"global_batch": None}), catalogue).job.workload.global_batch == 32
    assert ready(flat.with_values({"micro_batch": None}), catalogue).plan.micro_batch == 16
    assert (
        ready(flat.with_values({"micro_batch": None, "global_batch": 512}), catalogue).plan.micro_batch == 8
    )
    assert "global_batch" in reason(DENSE.with_values({"global_batch": None}), catalogue)


def test_a_last_micro_batch_may_be_smaller_without_a_pipeline(catalogue: Catalogue) -> None:
    found = ready(DENSE.with_values({"pp": 1, "dp": 16, "micro_batch": 3}), catalogue)
    assert found.plan.num_microbatches == pytest.approx(256 / 48)
    assert found.defaults["num_microbatches"] == pytest.approx(256 / 48)


def test_a_micro_batch_beyond_the_rank_s_share_is_the_share(catalogue: Catalogue) -> None:
    found = ready(DENSE.with_values({"pp": 1, "dp": 16, "micro_batch": 20}), catalogue)
    assert (found.plan.micro_batch, found.plan.num_microbatches) == (16, 1)
    assert found.defaults["micro_batch"] == 16


def test_hybrid_sharding_spreads_over_its_own_ranks(catalogue: Catalogue) -> None:
    plan = ready(DENSE.with_values({"framework": "fsdp", "zero": "hsdp:8"}), catalogue).plan
    assert (plan.zero, plan.zero_shards) == (3, 8)


def test_volta_trains_in_fp16(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"gpu": "v100-32gb", "framework": "fsdp", "step_time_s": 300.0})
    assert ready(run, catalogue).job.workload.precision == "fp16"


def test_the_node_size_of_a_row_wins(catalogue: Catalogue) -> None:
    pool = ready(DENSE.with_values({"gpus_per_node": 4}), catalogue).job.hardware.pool
    assert pool.gpus_per_node == 4
    assert pool.scaleup_domain == 4
    rack = DENSE.with_values({"gpu": "gb200-186gb", "step_time_s": 10.0, "gpus_per_node": 4})
    assert ready(rack, catalogue).job.hardware.pool.scaleup_domain == 72


def test_the_network_of_a_row_wins(catalogue: Catalogue) -> None:
    pool = ready(DENSE.with_values({"interconnect": "nvlink3 + 4x100Gb RoCE"}), catalogue).job.hardware.pool
    assert pool.nic_bandwidth == 4 * 100e9 / 8 / 8
    assert pool.network.name == "roce"


def test_the_zoo_is_used_where_name_and_columns_agree(catalogue: Catalogue) -> None:
    deepseek = DENSE.with_values(
        {
            "model": "DeepSeekV3",
            "framework": "megatron-bridge",
            "gpu": "gb200-186gb",
            "num_layers": 61,
            "hidden": 7168,
            "heads": 128,
            "kv_heads": 128,
            "head_dim": 128,
            "experts": 256,
            "topk": 8,
            "moe_ffn": 2048,
        }
    )
    model = ready(deepseek, catalogue).job.model
    assert isinstance(model.blocks[model.layers[-1]].mixer, LatentAttention)
    assert model.prediction is not None
    without = ready(deepseek.with_values({"model": "DeepSeekV3 (w/o MTP)"}), catalogue).job.model
    assert without.prediction is None
    other = ready(deepseek.with_values({"hidden": 4096, "heads": 32, "kv_heads": 8}), catalogue).job.model
    assert isinstance(other.blocks["moe"].mixer, Attention)


def test_a_known_name_fills_the_architecture(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"model": "LLAMA3_70B", "num_layers": None, "hidden": None, "heads": None})
    model = ready(run.with_values({"step_time_s": 100.0}), catalogue).job.model
    assert (model.num_layers, model.hidden, model.vocab) == (80, 8192, 128256)


def test_columns_make_dense_gated_and_expert_models(catalogue: Catalogue) -> None:
    plain = ready(DENSE, catalogue).job.model
    assert plain.params == pytest.approx(32 * 12 * 4096**2 + 51200 * 4096 + 2048 * 4096, rel=1e-3)
    gated = ready(
        DENSE.with_values({"gated_mlp": 1, "ffn_hidden": 11008, "kv_heads": 8}), catalogue
    ).job.model
    assert gated.params == pytest.approx(
        32 * (2 * 4096 * (32 + 8) * 128 + 3 * 4096 * 11008) + 2 * 51200 * 4096, rel=1e-3
    )
    sparse = DENSE.with_values(
        {"experts": 16, "topk": 2, "moe_ffn": 1024, "n_moe_layers": 30, "shared_experts": 1, "ep": 8}
    )
    model = ready(sparse.with_values({"step_time_s": 60.0}), catalogue).job.model
    assert model.layer_counts == {"dense": 2, "moe": 30}
    ffn = model.blocks["moe"].ffn
    assert isinstance(ffn, Experts)
    assert (ffn.experts, ffn.topk, ffn.inner, ffn.shared_inner) == (16, 2, 1024, 1024)
    assert isinstance(model.blocks["dense"].ffn, DenseFfn)


def test_the_same_columns_give_the_same_records(catalogue: Catalogue) -> None:
    first, second = ready(DENSE, catalogue), ready(DENSE.with_values({"id": "x-2", "line": 8}), catalogue)
    assert first.job.model is second.job.model
    assert first.job.hardware is second.job.hardware
    assert first.runtime is second.runtime


def test_facts_of_a_source_fill_blanks_and_are_cited(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"source": "aleph-alpha-layouts", "global_batch": None})
    found = ready(run.with_values({"step_time_s": 300.0}), catalogue)
    assert (found.job.workload.global_batch, found.job.model.vocab) == (2048, 128000)
    assert "MFU" in str(found.defaults["stated"])
    stated = ready(run.with_values({"step_time_s": 300.0, "global_batch": 512}), catalogue)
    assert stated.job.workload.global_batch == 512


def test_facts_may_be_about_more_than_a_number(catalogue: Catalogue) -> None:
    """BLOOM's trials on more than 20 nodes of 8 ran with blocking launches, and none on fewer is said to."""
    log = DENSE.with_values({"source": "bigscience-bloom-prequel", "framework": "megatron-deepspeed"})
    for gpus, blocks in ((160, False), (192, True)):
        run = log.with_values({"num_gpus": gpus, "dp": gpus // 8, "global_batch": gpus, "step_time_s": 60.0})
        assert ready(run, catalogue).runtime.traits.host.launch_blocking is blocks


def test_a_fact_may_hold_for_every_text_of_a_kind() -> None:
    run = DENSE.with_values({"source": "ours", "framework": "container 26.02", "gpu": "b200-180gb"})
    holds = {
        text: Fact("ours", {"framework": text}, {}, "here").holds(run)
        for text in ("~container (25.11|26.02)$", "~container 26.02.01$", "container 26.02", "container (26)")
    }
    assert list(holds.values()) == [True, False, True, False]


def test_rows_whose_accelerator_is_assumed_are_marked(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"source": "libai-benchmark", "gpu": "", "framework": "libai 0.2.0 (oneflow)"})
    found = ready(run.with_values({"step_time_s": 300.0}), catalogue)
    assert found.run.mark == "accelerator not stated"
    assert found.defaults["gpu"] == "v100-32gb"


def test_layers_follow_from_the_size_where_only_that_is_stated(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"num_layers": None, "params_b": 6.7})
    assert ready(run, catalogue).job.model.num_layers == 32
    assert ready(run, catalogue).defaults["num_layers"] == 32


def test_nemo_interleaves_fully_where_the_chunks_are_blank(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"framework": "nemo 24.07", "gpu": "h100-80gb-sxm", "step_time_s": 20.0})
    plan = ready(run, catalogue).plan
    assert (plan.vpp, plan.schedule) == (16, "interleaved-1f1b")


def test_the_task_is_read_from_the_notes(catalogue: Catalogue) -> None:
    lora = ready(DENSE.with_values({"notes": "task=lora; DGX-H100"}), catalogue)
    assert (lora.task, lora.job.workload.method) == ("lora", "lora")
    assert ready(DENSE.with_values({"notes": "task=sft; x"}), catalogue).task == "sft"


@every(
    ("text", "name"),
    [
        ("every-layer", "full"),
        ("full", "full"),
        ("block:5", "full:5"),
        ("selective", "selective"),
        ("selective:per-op", "selective"),
        ("selective:mlp+core_attn", "selective:mlp+core_attn"),
        ("selective:core_attn+layernorm", "selective:core_attn+norm"),
        ("none", "none"),
    ],
)
def test_recompute_is_spelled_as_the_planner_does(text: str, name: str) -> None:
    assert recompute_name(text, 8) == name


def test_a_count_of_flops_that_includes_recompute_tells_that_it_was_on(catalogue: Catalogue) -> None:
    convention = "hardware (96Bslh^2 formula: includes one full forward recompute)"
    found = ready(DENSE.with_values({"flops_convention": convention}), catalogue)
    assert (found.plan.recompute, found.defaults["recompute"]) == ("full", "full")
    other = DENSE.with_values({"flops_convention": "megatron-formula (counts recompute when on)"})
    assert ready(other, catalogue).plan.recompute == "none"


def test_a_stated_pipeline_layout_gives_the_layers_of_each_stage() -> None:
    layers = stated_layers("recipe x pp_layout=Et*4|(t*4|)*14tmL overlap_grad_reduce=True", 16)
    assert layers == (4, *[4] * 14, 1)
    assert sum(layers) == 61
    assert stated_layers("pp_layout=Et*4|(t*4|)*14tmL", 8) is None
    assert stated_layers("no layout here", 16) is None


def test_uneven_layers_are_cut_as_the_framework_does(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"num_layers": 30, "pp": 8, "dp": 2, "global_batch": 256})
    assert ready(run, catalogue).plan.stage_layers == (3, 4, 4, 4, 4, 4, 4, 3)
    assert ready(run.with_values({"num_layers": 29}), catalogue).plan.stage_layers == (4, 4, 4, 4, 4, 4, 4, 1)


def test_layers_weighed_by_parameters_leave_room_for_embedding_and_head() -> None:
    assert weighed_layers(60, 4, 1.6) == (14, 16, 16, 14)
    assert weighed_layers(60, 2, 1.6) is None


def test_other_spellings_mean_the_same_run(catalogue: Catalogue) -> None:
    plain = ready(DENSE.with_values({"precision": "bf16", "recompute": "full", "zero": "1"}), catalogue)
    changes: dict[str, object] = {"precision": "BF16-mixed", "recompute": "Uniform:1", "zero": "1"}
    other = ready(DENSE.with_values({**changes, "gpu": "NVIDIA A100_SXM4 80GB"}), catalogue)
    assert (other.plan, other.job.workload) == (plain.plan, plain.job.workload)
    assert other.job.hardware is plain.job.hardware
    assert other.defaults["precision"] == "bf16"


@every(
    ("text", "nics", "gbit"),
    [
        ("3.2 Tbps EFA", 1, 3200.0),
        ("25 GbE", 1, 25.0),
        ("HDR", 8, 200.0),
        ("NVLink + 4x HDR100", 4, 100.0),
        ("8xNDR", 8, 400.0),
        ("1.6 TB/s NVLink", 8, 400.0),
    ],
)
def test_ports_of_a_generation_have_its_rate(text: str, nics: int, gbit: float, catalogue: Catalogue) -> None:
    run = DENSE.with_values({"gpu": "h100", "interconnect": text})
    node = ready(run, catalogue).job.hardware.pool.node
    assert node.nic_rate is not None
    assert (node.nics, float(node.nic_rate)) == (nics, gbit * 1e9 / 8)


@every(
    ("name", "known"),
    [
        ("NVIDIA H100-NVL 94GB", "h100-94gb-nvl"),
        ("AMD Instinct MI300X", "mi300x-192gb"),
        ("TPUv5p", "tpu-v5p"),
        ("Intel Gaudi 3", "gaudi3"),
        ("B200-192GB", "b200-180gb"),
        ("a100 64gb", ""),
        ("h100-96gb-hbm3", ""),
        ("NVIDIA", ""),
    ],
)
def test_an_accelerator_is_known_by_its_words(name: str, known: str) -> None:
    found = accelerator_file(name)
    assert (found.stem if found else "") == known


def test_a_run_without_a_known_name_is_known_by_its_shape(catalogue: Catalogue) -> None:
    shape: dict[str, object] = {"num_layers": 61, "hidden": 7168, "heads": 128, "vocab": 129280}
    experts: dict[str, object] = {"experts": 256, "topk": 8, "moe_ffn": 2048}
    run = DENSE.with_values({**shape, **experts, "model": "ours", "pp": 1, "dp": 16, "step_time_s": 300.0})
    found = ready(run, catalogue)
    assert isinstance(found.job.model.blocks["moe"].mixer, LatentAttention)
    assert found.defaults["model"] in ("deepseek-r1", "deepseek-v3")
    other = ready(run.with_values({"vocab": 129288}), catalogue)
    assert isinstance(other.job.model.blocks["moe"].mixer, Attention)
    assert "model" not in other.defaults


def test_the_batch_or_the_sequence_follows_from_two_speeds(catalogue: Catalogue) -> None:
    speeds: dict[str, object] = {"step_time_s": 30.0, "tokens_per_s_per_gpu": 273.1}
    assert ready(DENSE.with_values({**speeds, "global_batch": None}), catalogue).run.global_batch == 256
    assert ready(DENSE.with_values({**speeds, "seq_len": None}), catalogue).run.seq_len == 2048
    odd = DENSE.with_values({**speeds, "tokens_per_s_per_gpu": 279.0, "global_batch": None})
    assert "global_batch" in reason(odd, catalogue)


def test_a_context_parallel_degree_follows_where_its_method_is_stated(catalogue: Catalogue) -> None:
    half = DENSE.with_values({"dp": 4})
    assert "multiply" in reason(half, catalogue)
    plan = ready(half.with_values({"cp_method": "All_Gather"}), catalogue).plan
    assert (plan.cp, plan.cp_method) == (2, "all-gather")


def test_heads_and_width_follow_from_what_is_stated(catalogue: Catalogue) -> None:
    assert ready(DENSE.with_values({"heads": None}), catalogue).defaults["heads"] == 32
    assert ready(DENSE.with_values({"heads": None, "head_dim": 64}), catalogue).defaults["heads"] == 64
    assert ready(DENSE.with_values({"heads": None, "hidden": 832}), catalogue).defaults["heads"] == 13
    wide = DENSE.with_values({"hidden": None, "params_b": 6.7})
    assert ready(wide, catalogue).defaults["hidden"] == 4192


@every(
    ("framework", "gpu", "ep"),
    [("megatron-core", "gb200", 64), ("megatron-core", "h100", 8), ("fsdp", "h100", 1)],
)
def test_experts_spread_over_the_fast_links(framework: str, gpu: str, ep: int, catalogue: Catalogue) -> None:
    experts: dict[str, object] = {"experts": 128, "topk": 8, "moe_ffn": 768, "pp": 1, "tp": 1, "dp": 64}
    run = DENSE.with_values({**experts, "framework": framework, "gpu": gpu})
    assert ready(run, catalogue).plan.ep == ep


def test_the_words_of_deepspeed_tell_stage_and_offload(catalogue: Catalogue) -> None:
    flat = DENSE.with_values({"tp": 1, "pp": 1, "dp": 64, "step_time_s": 60.0})
    for words, zero, offload in (
        ("DeepSpeed ZeRO-2", 2, "none"),
        ("deepspeed stage 1", 1, "none"),
        ("deepspeed", 3, "none"),
        ("DeepSpeed ZeRO-Offload", 2, "optimizer"),
    ):
        plan = ready(flat.with_values({"framework": words}), catalogue).plan
        assert (plan.zero, plan.offload) == (zero, offload)


def test_scaled_fp8_is_priced_on_hopper(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"gpu": "h100", "precision": "FP8 (blockwise)"})
    assert ready(run, catalogue).job.workload.precision == "fp8-block"


@every("framework", ["ddp", "litgpt", "llm-foundry", "nanoGPT"])
def test_what_can_only_be_data_parallel_is(framework: str, catalogue: Catalogue) -> None:
    blank = DENSE.with_values({"framework": framework, "tp": None, "pp": None, "dp": None})
    found = ready(blank, catalogue)
    assert (found.plan.tp, found.plan.pp, found.plan.dp) == (1, 1, 64)
    assert {name: found.defaults[name] for name in ("tp", "pp", "dp")} == {"tp": 1, "pp": 1, "dp": 64}


def test_ranks_without_accelerators_count_them_where_a_program_is_data_parallel(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"framework": "ddp", "num_gpus": None, "tp": None, "pp": None})
    assert ready(run, catalogue).defaults["num_gpus"] == 8


def test_an_engine_without_stages_takes_the_rest_for_tensor_parallelism(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"framework": "megatron-deepspeed", "zero": "3", "tp": None, "pp": None, "dp": 4})
    plan = ready(run.with_values({"gpus_per_node": 8}), catalogue).plan
    assert (plan.tp, plan.pp, plan.dp) == (16, 1, 4)


def test_degrees_that_a_program_can_have_are_not_guessed(catalogue: Catalogue) -> None:
    run = DENSE.with_values({"tp": None, "pp": None, "dp": None})
    assert "column tp: found blank" in reason(run, catalogue)


@every("column", ["gpu", "framework"])
def test_a_word_for_blank_in_a_needed_column_is_told_as_blank(column: str, catalogue: Catalogue) -> None:
    cells = {"id": "a", "gpu": "a100", "num_gpus": "8", "framework": "ddp", "step_time_s": "1", column: "n/a"}
    table = read_runs([",".join(cells), ",".join(cells.values())])
    (row,) = table.rows
    assert isinstance(row, Run)
    assert f"row 2, column {column}: found blank" in reason(row, catalogue)
