"""Rows as another person would write them: other words for the same, and figures that cannot be."""

from __future__ import annotations

import pytest

from planner.calibrate.eras import find_era
from planner.calibrate.runs.catalogue import Catalogue, named_model, shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepare
from planner.calibrate.runs.table import Run, read_runs
from tests.cases import every

DENSE = Run(
    line=3,
    id="x-1",
    gpu="h100-80gb-sxm",
    num_gpus=64,
    model="own",
    framework="megatron-core 0.12",
    num_layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    ffn_hidden=14336,
    vocab=100_352,
    seq_len=2048,
    tp=4,
    pp=2,
    dp=8,
    micro_batch=2,
    global_batch=256,
    step_time_s=30.0,
)
EXPERTS: dict[str, object] = {"experts": 8, "topk": 2, "moe_ffn": 1024, "ep": 8}


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def ready(catalogue: Catalogue, **changes: object) -> PricedRun:
    found = prepare(DENSE.with_values(changes), catalogue)
    assert isinstance(found, PricedRun), found
    return found


@every(
    ("column", "text", "stored"),
    [
        ("gated_mlp", "True", 1),
        ("oom", "no", 0),
        ("zero", "FULL_SHARD", "3"),
        ("zero", "none", "0"),
        ("memory_kind", "max_memory_allocated", "allocated"),
        ("memory_kind", "nvidia-smi", "device"),
    ],
)
def test_a_cell_may_use_the_words_of_its_framework(column: str, text: str, stored: object) -> None:
    lines = [f"id,gpu,num_gpus,framework,{column}\n", f"a,h100,8,fsdp,{text}\n"]
    (run,) = read_runs(lines).rows
    assert isinstance(run, Run)
    assert getattr(run, column) == stored


@every(
    ("column", "text", "same"),
    [
        ("recompute", "gradient checkpointing", "full"),
        ("recompute", "full (block, 8)", "block:8"),
        ("recompute", "Selective (core_attn)", "selective:core_attn"),
        ("recompute", "every layer", "every-layer"),
        ("schedule", "AFAB", "gpipe"),
        ("schedule", "none", ""),
        ("schedule", "looped-BFS", "breadth-first"),
        ("offload", "no", "none"),
        ("offload", "0", "none"),
    ],
)
def test_a_technique_may_be_spelled_in_other_words(
    column: str, text: str, same: str, catalogue: Catalogue
) -> None:
    assert ready(catalogue, **{column: text}).plan == ready(catalogue, **{column: same}).plan


def test_a_context_method_that_nobody_knows_is_a_ring_and_said(catalogue: Catalogue) -> None:
    found = ready(catalogue, cp=2, dp=4, cp_method="tree")
    assert (found.plan.cp_method, found.defaults["cp_method"]) == ("ring", "ring")


@every(
    ("text", "name"),
    [
        *(("FP8-MX", "mxfp8"), ("fp8_mx", "mxfp8"), ("nv-fp4", "nvfp4")),
        *(("fp8-mixed", "fp8"), ("FP8-CS", "fp8"), ("fp8_ds", "fp8-delayed")),
    ],
)
def test_the_recipes_of_megatron_bridge_have_their_formats(
    text: str, name: str, catalogue: Catalogue
) -> None:
    """Megatron-Bridge calls MXFP8 fp8_mx, and the recipe with current scaling fp8_cs; delayed is _ds."""
    found = ready(catalogue, gpu="b200-180gb", framework="megatron-bridge 26.02", precision=text)
    assert found.job.workload.precision == name


def test_a_scale_for_each_block_is_refused_where_the_accelerator_has_none(catalogue: Catalogue) -> None:
    found = prepare(DENSE.with_values({"precision": "FP8-MX"}), catalogue)
    assert isinstance(found, Skip)
    assert "'mxfp8' on h100-80gb-sxm" in found.reason


@every(
    ("changes", "words"),
    [
        ({"zero": "hsdp:7"}, ["column zero", "'hsdp:7'", "divide dp 8"]),
        ({"mfu_pct": 120.0}, ["column mfu_pct: found 120", "100%"]),
        ({"peak_mem_gib": 1e9}, ["column peak_mem_gib: found 1e+09", "80 GiB"]),
        ({"kv_heads": 5}, ["column kv_heads: found 5", "a divisor of 32 heads"]),
        ({**EXPERTS, "topk": 64}, ["column topk: found 64", "at most 8 experts"]),
        ({**EXPERTS, "n_moe_layers": 240}, ["column n_moe_layers: found 240", "at most 32 layers"]),
    ],
)
def test_what_cannot_be_is_refused_by_its_column(
    changes: dict[str, object], words: list[str], catalogue: Catalogue
) -> None:
    found = prepare(DENSE.with_values(changes), catalogue)
    assert isinstance(found, Skip)
    assert [word for word in ("row 3", *words) if word not in found.reason] == [], found.reason


def test_memory_printed_a_little_over_the_device_is_believed(catalogue: Catalogue) -> None:
    """A public run prints 146.5 GiB of an H200, which shows 131: its source mixes units."""
    ready(catalogue, gpu="h200-141gb", peak_mem_gib=146.5)


def test_the_width_of_a_feed_forward_tells_whether_it_is_gated(catalogue: Catalogue) -> None:
    """Llama's 3.5 times the width is gated; GPT's four times is plain."""
    assert ready(catalogue).defaults["gated_mlp"] == 1
    assert ready(catalogue, ffn_hidden=4 * 4096).defaults["gated_mlp"] == 0
    assert ready(catalogue, ffn_hidden=None).defaults["gated_mlp"] == 0


def test_a_size_that_the_columns_do_not_make_is_told(catalogue: Catalogue) -> None:
    told = ready(catalogue, params_b=20.0).defaults["params_b"]
    assert told == round(ready(catalogue).job.model.params / 1e9, 2)
    assert "params_b" not in ready(catalogue, params_b=8.0).defaults


def test_megatrons_formula_gives_seconds(catalogue: Catalogue) -> None:
    """Hopper: causal attention and no recompute; on A100 the 96 B s l h^2 of arXiv:2104.04473."""
    said: dict[str, object] = {"step_time_s": None, "tflops_per_gpu": 200.0, "gated_mlp": 0}
    new = ready(catalogue, **said, flops_convention="megatron-formula").measured
    same = ready(catalogue, **said, flops_convention="megatron-bridge formula").measured
    old = ready(catalogue, **said, gpu="a100-80gb-sxm", flops_convention="megatron-formula").measured
    whole = ready(catalogue, **said, gpu="a100-80gb-sxm", flops_convention="hardware").measured
    assert new.seconds is not None
    assert (new, old) == (same, whole)
    assert old != new


@every(("framework", "era"), [("nemo2", "nemo-2025"), ("NeMo 24.07", "nemo-2024"), ("HF Trainer", "fsdp")])
def test_short_names_of_frameworks_find_their_era(framework: str, era: str) -> None:
    found = find_era(framework, "h100-80gb-sxm", None)
    assert found is not None
    assert found.name == era


def test_a_size_in_brackets_belongs_to_the_name() -> None:
    assert (found := named_model("GPT3 (175B)")) is not None
    assert found.name == "gpt3-175b"
    assert (found := named_model("DeepSeekV3 (w/o MTP)")) is not None
    assert found.name == "deepseek-v3"


def test_torchtitan_keeps_weights_gathered_in_a_pipeline(catalogue: Catalogue) -> None:
    """Its default: ``reshard_after_forward`` is false where there is a pipeline."""
    titan: dict[str, object] = {"framework": "torchtitan", "zero": ""}
    assert ready(catalogue, **titan).plan.zero == 2
    assert ready(catalogue, **titan, pp=1, dp=16).plan.zero == 3
