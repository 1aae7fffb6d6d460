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
from planner.runtimes._family import Job
from tests.helpers import ROOT
from tests.unit.cost_jobs import cluster, plan_of, runtime

with (ROOT / "tests" / "oracle" / "comm" / "sent.csv").open(encoding="utf-8") as table:
    ROWS = list(csv.DictReader(table))

EACH = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
RECOMPUTE = {"none": "none", "full": "full", "sac_op": "selective"}
VOCAB_RANKS = 3
"""All-reduces of one fp32 number for each token in a cross-entropy over a divided vocabulary."""


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
    traits = {"reduce_dtype": {"bfloat16": "bf16", "float32": "fp32"}[row["reduce"]], "early_stop": False}
    titan = replace(runtime("torchtitan", **traits), rules=lambda plan, job: [])
    fields: dict[str, Any] = {"tp": number(row, "tp"), "cp": number(row, "cp")}
    fields["sequence_parallel"] = row["sequence_parallel"] == "1"
    fields["recompute"] = RECOMPUTE[row["recompute"]]
    fields["cp_method"] = "all-gather" if row["cp_rotate"] == "allgather" else "ring"
    if row["style"] == "fsdp":
        fields |= {"zero": 3, "zero_shards": number(row, "dp_shard") * number(row, "cp")}
    return estimate(plan_of(job, **fields), job, titan).sent


@EACH
def test_data_parallel_bytes(row: dict[str, str]) -> None:
    """The head is gathered once in a pass; some programs keep weights or reduce late; rows are padded."""
    model, tp = model_of(row), number(row, "tp")
    shards = number(row, "dp_shard") * number(row, "cp")
    share, passes = (shards - 1) / shards, number(row, "accumulate")
    held = estimate_params(model, tp)
    more = 0.0
    if row["style"] == "fsdp":
        head = model.vocab * model.hidden / tp + model.hidden
        more = passes * 2 * share * (held if row["reshard"] == "never" else head)
        more += (passes - 1) * 4 * share * held * number(row, "reduce_last")
        padding = (-model.vocab // tp) % shards * model.hidden if model.vocab / tp % shards else 0
        more -= padding * share * (3 * 2 + 2 * 4)
        more -= 291 * 4 * 2 * share * row["id"].endswith("clip")
    assert priced(row).dp - int(row["dp_sent"]) == pytest.approx(more, rel=1e-9, abs=1.0)


def estimate_params(model: ModelSpec, tp: int) -> float:
    """Weights on a tensor rank: all but the norms are divided."""
    norms = (2 * model.num_layers + 1) * model.hidden
    return (model.params - norms) / tp + norms


@EACH
def test_tensor_parallel_bytes(row: dict[str, str]) -> None:
    """PyTorch also reduces the loss and the norms' gradients; DTensor reduces the input of every product."""
    model, tp, layers = model_of(row), number(row, "tp"), model_of(row).num_layers
    share = (tp - 1) / tp
    tokens = number(row, "seq_len") / number(row, "cp")
    once = share * 2 * tokens * model.hidden
    more = VOCAB_RANKS * 2 * share * 4 * tokens
    if row["sequence_parallel"] == "1":
        more += (2 * layers + 1) * 2 * share * 2 * model.hidden
        more += 2 * layers * once * (row["recompute"] == "sac_op")
    elif row["one_input_reduce"] == "0":
        more += 3 * layers * 2 * once
    assert int(row["tp_sent"]) - priced(row).tp == pytest.approx(more, rel=1e-9, abs=1.0)


@EACH
def test_context_parallel_bytes(row: dict[str, str]) -> None:
    """Forward is equal; backward PyTorch sends the gradients of keys and values in fp32, and once more."""
    model, cp = model_of(row), number(row, "cp")
    mixer = next(iter(model.blocks.values())).mixer
    chunk = 2 * 2 * number(row, "seq_len") / cp * mixer.kv_heads * mixer.qk_head_dim * (cp > 1)
    ours, theirs = 3 * (cp - 1) * chunk, (2 * (cp - 1) + 2 * cp) * chunk
    assert priced(row).cp == model.num_layers * ours
    assert int(row["cp_sent"]) == model.num_layers * theirs
