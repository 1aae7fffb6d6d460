"""Buffers of messages: against the allocations of their code, and as a part of what a plan needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.memory.message_buffers import dispatch_buffer_bytes, message_buffer_bytes
from planner.cost.settings import with_value
from planner.formulas.message_buffers import deep_buffer_bytes, hybrid_buffer_bytes
from planner.inputs.load import load_model
from planner.inputs.load_hardware import cluster_names, load_hardware
from planner.inputs.workload import Workload
from planner.numeric import Num
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.choices import fused_backend
from planner.techniques.settings.expert_dispatcher import sends_by_hybrid_ep
from tests.cases import every

GIB = 2.0**30
PLAN = Plan(pp=4.0, ep=64.0, dp=64.0, zero=1, zero_shards=64.0, num_microbatches=16.0)


def hybrid(tokens: int, nodes: int, per_node: int, hidden: int, experts: int) -> int:
    """Return what HybridEP's constructor asks its allocator for, buffer by buffer."""
    whole = tokens * per_node * nodes
    in_a_node = experts // nodes
    token, prob = whole * hidden * 2, whole * in_a_node * 4
    combine = [token, prob]
    dispatch = [whole * (hidden // 128) * 4] + ([token, prob] if nodes > 1 else [])
    far_token, far_prob = tokens * (nodes - 1) * hidden * 2, tokens * (nodes - 1) * in_a_node * 4
    return sum(combine) + sum(dispatch) + 3 * (far_token + far_prob)


@every(
    ("tokens", "nodes", "per_node", "hidden", "experts"),
    [(4096, 1, 64, 7168, 256), (16384, 1, 8, 2048, 128), (4096, 2, 72, 7168, 288), (2048, 4, 8, 4096, 128)],
)
def test_buffers_of_hybrid_ep_are_what_its_constructor_takes(
    tokens: int, nodes: int, per_node: int, hidden: int, experts: int
) -> None:
    found = hybrid_buffer_bytes(
        float(tokens), float(hidden), float(experts), float(nodes * per_node), float(per_node)
    )
    assert float(found) == hybrid(tokens, nodes, per_node, hidden, experts)


def deep(ranks: int, hidden: int, near: int, afar: int) -> int:
    """Return the two sizes that DeepEP's configuration hints at, of 20 multiprocessors."""
    channels, peers, nodes = 10, min(ranks, 8), max(ranks // 8, 1)
    beside = 8 + 128 * 8 + 128 * 4 + 128 * 4
    size = channels * peers * (near * (2 * hidden + beside) + (2 * nodes + 3) * 4)
    if ranks > 8:
        size += channels * nodes * (2 * afar * (2 * hidden + beside + 16) + 18 * 2 * 4) + 2**20
    return size


@every(("ranks", "near", "afar"), [(8, 256, 128), (16, 288, 140), (64, 288, 140)])
def test_buffers_of_deep_ep_are_what_its_configuration_hints_at(ranks: int, near: int, afar: int) -> None:
    found = float(deep_buffer_bytes(7168.0, float(ranks)))
    assert found == pytest.approx(deep(ranks, 7168, near, afar), rel=0.005)


def of_deepseek(ranks: Num) -> Num:
    return hybrid_buffer_bytes(4096.0, 7168.0, 256.0, ranks, 72.0)


def of_its_queues(ranks: Num) -> Num:
    return deep_buffer_bytes(7168.0, ranks)


@every("nbytes", [of_deepseek, of_its_queues])
def test_a_rank_alone_has_none_and_columns_are_as_single_plans(nbytes: Callable[[Num], Num]) -> None:
    ranks = np.array([1.0, 2.0, 8.0, 64.0, 144.0])
    many = np.asarray(nbytes(ranks))
    assert many.tolist() == [float(nbytes(float(each))) for each in ranks]
    assert many[0] == 0.0
    assert np.all(np.diff(many) > 0)


@every("name", cluster_names())
def test_the_kernels_that_are_priced_are_those_that_files_ask_for(name: str) -> None:
    pool = load_hardware(name).pool
    job = Job(load_model("qwen3-30b-a3b"), load_hardware(name), pool.gpus_per_node, Workload())
    for graphed in ("none", "attention", "passes"):
        assert sends_by_hybrid_ep(pool, graphed) == (fused_backend(job, graphed) == "hybridep")


def priced(dispatcher: str, cluster: str = "gb200-nvl72", plan: Plan = PLAN) -> Estimate:
    work = Workload(seq_len=4096, global_batch=1024, precision="mxfp8")
    job = Job(load_model("deepseek-v3"), load_hardware(cluster), 256, work)
    runtime = with_value(runtimes()["megatron-bridge"], "expert_dispatcher", dispatcher)
    return estimate(plan, job, runtime)


def test_a_plan_needs_room_for_them_that_no_allocator_sees() -> None:
    """3.8 GiB on 64 ranks of a rack: half of that with half of the tokens, nothing without such kernels."""
    fused, plain = (priced(name) for name in ("fused", "all-to-all"))
    more = [one.framework - other.framework for one, other in zip(fused.stages, plain.stages, strict=True)]
    assert more == pytest.approx([hybrid(4096, 1, 64, 7168, 256)] * 4)
    assert more[0] / GIB == pytest.approx(3.8, abs=0.01)
    halved = priced("fused", plan=replace(PLAN, cp=2.0, dp=32.0))
    assert halved.stages[0].framework - plain.stages[0].framework == pytest.approx(more[0] / 2)
    for stage in fused.stages:
        assert stage.total == pytest.approx(stage.allocated + stage.reserve + stage.framework)


def test_sequence_parallel_ranks_send_their_part_of_the_tokens() -> None:
    job = Job(load_model("deepseek-v3"), load_hardware("gb200-nvl72"), 256, Workload(seq_len=4096))
    runtime = with_value(runtimes()["megatron-bridge"], "expert_dispatcher", "fused")
    whole = replace(PLAN, tp=2.0, dp=32.0)
    parts = replace(whole, sequence_parallel=True)
    sizes = [float(dispatch_buffer_bytes(case_of(plan, job, runtime), plan)) for plan in (whole, parts)]
    assert sizes[0] == pytest.approx(2 * sizes[1])


NAMES = {
    "qkv_fprop": 1, "fc1_fprop": 1, "proj_dgrad": 1, "fc2_dgrad": 1, "proj_fprop": 2, "fc2_fprop": 2,
    "qkv_dgrad": 1, "qkv_wgrad": 2, "fc1_dgrad": 1, "fc1_wgrad": 2,
}  # fmt: skip
"""User buffers of Transformer Engine, with the bytes of an element in fp8."""


@every(("precision", "low"), [("bf16", 2), ("fp8", 1), ("mxfp8", 1), ("nvfp4", 2)])
def test_overlap_of_tensor_parallelism_has_a_buffer_for_each_product(precision: str, low: int) -> None:
    work = Workload(seq_len=8192, global_batch=64, precision=precision)
    job = Job(load_model("llama3-70b"), load_hardware("dgx-b200"), 64, work)
    plan = Plan(tp=4.0, dp=8.0, pp=2.0, num_microbatches=8.0, sequence_parallel=True)
    sizes = {}
    for value in ("on", "off"):
        runtime = with_value(runtimes()["megatron-bridge"], "tp_overlap", value)
        for name, one in (("parts", plan), ("whole", replace(plan, sequence_parallel=False))):
            sizes[value, name] = float(message_buffer_bytes(case_of(one, job, runtime), one))
    each = sum(max(low, number) for number in NAMES.values())
    assert sizes["on", "parts"] == each * 8192 * 8192
    assert set(sizes.values()) == {0.0, sizes["on", "parts"]}
    assert sizes["off", "parts"] == sizes["on", "whole"] == 0.0


def test_beyond_the_fast_links_and_elsewhere_nothing_overlaps() -> None:
    job = Job(load_model("llama3-70b"), load_hardware("dgx-b200"), 64, Workload(seq_len=8192))
    plan = Plan(tp=16.0, dp=4.0, num_microbatches=8.0, sequence_parallel=True)
    for name, one in (("megatron-bridge", plan), ("torchtitan", replace(plan, tp=4.0, dp=16.0))):
        assert float(message_buffer_bytes(case_of(one, job, runtimes()[name]), one)) == 0.0
