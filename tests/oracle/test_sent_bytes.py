"""Bytes that a rank sends, against PyTorch's own collectives: exact, each difference by its cause."""

from __future__ import annotations

import csv
from dataclasses import replace
from typing import Any

import pytest

from planner.cost.estimate import SentBytes, estimate
from planner.inputs.load import load_model
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from tests.cases import every
from tests.helpers import ROOT
from tests.unit.cost_jobs import cluster, plan_of, runtime

with (ROOT / "tests" / "oracle" / "comm" / "sent.csv").open(encoding="utf-8") as table:
    ROWS = list(csv.DictReader(table))

EACH = every("row", ROWS, ids=lambda row: row["id"])
RECOMPUTE = {"none": "none", "full": "full", "sac_op": "selective"}


def number(row: dict[str, str], name: str) -> int:
    return int(row[name])


def model_of(row: dict[str, str]) -> ModelSpec:
    model = load_model(row["model"])
    if not row["layers"]:
        return model
    return ModelSpec.model_validate(model.model_dump() | {"layers": model.layers[: int(row["layers"])]})


def priced(row: dict[str, str]) -> SentBytes:
    """Price the layout for torchtitan, its rules left out: some rows are programs that it does not offer."""
    dp = number(row, "dp_replicate") * number(row, "dp_shard")
    gpus = dp * number(row, "cp") * number(row, "tp")
    work = Workload(seq_len=number(row, "seq_len"), global_batch=dp * number(row, "accumulate"))
    job = Job(model_of(row), cluster("dgx-h100"), gpus, work)
    traits = {
        "reduce_dtype": {"bfloat16": "bf16", "float32": "fp32"}[row["reduce"]],
        "checkpointing": "reentrant",
    }
    titan = replace(runtime("torchtitan", **traits), own_rules=lambda *_: [])
    fields: dict[str, Any] = {"tp": number(row, "tp"), "cp": number(row, "cp")}
    fields["sequence_parallel"] = row["sequence_parallel"] == "1"
    fields["recompute"] = RECOMPUTE[row["recompute"]]
    fields["cp_method"] = "all-gather" if row["cp_rotate"] == "allgather" else "ring"
    if row["style"] == "fsdp":
        zero = 2 if row["reshard"] == "never" else 3
        fields |= {"zero": zero, "zero_shards": number(row, "dp_shard") * number(row, "cp")}
    return estimate(plan_of(job, **fields), job, titan).sent


@EACH
def test_data_parallel_bytes(row: dict[str, str]) -> None:
    """Equal, but for a program that reduces late, and the norms of gradients that clipping sums."""
    model, tp = model_of(row), number(row, "tp")
    shards = number(row, "dp_shard") * number(row, "cp")
    share, passes = (shards - 1) / shards, number(row, "accumulate")
    held = estimate_params(model, tp)
    more = 0.0
    if row["style"] == "fsdp":
        more += (passes - 1) * 4 * share * held * number(row, "reduce_last")
        more -= 291 * 4 * 2 * share * row["id"].endswith("clip")
    assert priced(row).dp - int(row["dp_sent"]) == pytest.approx(more, rel=1e-9, abs=1.0)


with (ROOT / "tests" / "oracle" / "comm" / "fsdp2.csv").open(encoding="utf-8") as table:
    FSDP2_ROWS = list(csv.DictReader(table))


def made_up(row: dict[str, str]) -> ModelSpec:
    mixer = {name: number(row, name) for name in ("heads", "kv_heads", "head_dim")}
    switches = {"qkv_bias": row["qkv_bias"] == "1", "qk_norm": row["qk_norm"]}
    block = {
        "mixer": {"kind": "attention", **mixer, **switches},
        "ffn": {"kind": "dense", "inner": number(row, "inner")},
    }
    sizes = {"hidden": number(row, "hidden"), "vocab": number(row, "vocab")}
    whole = {"name": "made-up", "blocks": {"dense": block}, "layers": ("dense",) * number(row, "layers")}
    return ModelSpec.model_validate({**sizes, **whole, "tied_embeddings": row["tied"] == "1"})


@every("row", FSDP2_ROWS, ids=lambda row: row["id"])
def test_padded_rows_and_tied_tables_to_the_byte(row: dict[str, str]) -> None:
    """Torchtitan keeps the head gathered; Accelerate, whose word is true or false, gathers all again."""
    model, shards = made_up(row), number(row, "dp_shard")
    assert model.params == number(row, "params")
    gpus = shards * number(row, "dp_replicate")
    work = Workload(seq_len=128, global_batch=gpus * number(row, "accumulate"))
    job = Job(model, cluster("dgx-h100"), gpus, work)
    reduced = {"bfloat16": "bf16", "float32": "fp32"}[row["reduce"]]
    program = runtime("fsdp" if row["reshard"] == "always" else "torchtitan", reduce_dtype=reduced)
    plan = plan_of(job, zero=2 if row["reshard"] == "never" else 3, zero_shards=shards)
    found = estimate(plan, job, replace(program, own_rules=lambda *_: [])).sent.dp
    assert abs(found - number(row, "dp_sent")) < 0.01


def test_an_odd_vocabulary_divided_twice() -> None:
    """Rows of 5,026 on 4 tensor ranks are 1,257, on 24 shards 53 each; gathered logits are padded too.

    Counted like `fsdp2.csv`, with real tensors: torchtitan's plan with sequence parallelism, logits gathered
    before the loss, 24 x 4 ranks, one sequence of 32 tokens. In all 10 reduce-scatters and 10 gathers of
    32,000 bytes, one gather of 321,792, and 5 all-reduces of 1,000, on 4 ranks.
    """
    block = {
        "mixer": {"kind": "attention", "heads": 20, "kv_heads": 4, "head_dim": 50},
        "ffn": {"kind": "dense", "inner": 1300},
    }
    sizes = {"hidden": 500, "vocab": 5026, "tied_embeddings": False, "layers": ("dense",) * 2}
    model = ModelSpec.model_validate({"name": "made-up", "blocks": {"dense": block}, **sizes})
    job = Job(model, cluster("dgx-h100"), 96, Workload(seq_len=32, global_batch=24))
    plan = plan_of(job, tp=4, zero=3, zero_shards=24, sequence_parallel=True)
    program = replace(runtime("torchtitan", vocab_parallel_loss=False), own_rules=lambda *_: [])
    sent = estimate(plan, job, program).sent
    assert (round(sent.dp, 3), round(sent.tp, 3)) == (21_274_954, 728_844)


def estimate_params(model: ModelSpec, tp: int) -> float:
    """Weights on a tensor rank: all but the norms are divided."""
    norms = (2 * model.num_layers + 1) * model.hidden
    return (model.params - norms) / tp + norms


@EACH
def test_tensor_parallel_bytes(row: dict[str, str]) -> None:
    """Equal, but where a program without sequence parallelism reduces the input of every product apart."""
    model, tp = model_of(row), number(row, "tp")
    more = 0.0
    if row["sequence_parallel"] == "0" and row["one_input_reduce"] == "0":
        tokens = number(row, "seq_len") / number(row, "cp")
        more = 3 * model.num_layers * 2 * (tp - 1) / tp * 2 * tokens * model.hidden
    assert abs(int(row["tp_sent"]) - priced(row).tp - more) < 0.5


@EACH
def test_context_parallel_bytes(row: dict[str, str]) -> None:
    """Backward the gradients of keys and values travel in fp32, and once round the whole ring."""
    assert abs(priced(row).cp - int(row["cp_sent"])) < 0.5
