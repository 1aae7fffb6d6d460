"""What a CUDA graph's pool costs, against an allocator that plays the order of a job's tensors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planner.calibrate.eras.statements import statements
from planner.cost.estimate import estimate
from planner.inputs.load import load_model
from planner.inputs.workload import Workload
from planner.runtimes.family import Job
from tests.oracle.caching_allocator import MIB, Allocator, Block, OutOfMemoryError
from tests.unit.cost_jobs import cluster, plan_of, runtime

PP, VPP, LAYERS, MICRO_BATCHES = 4, 5, 4, 16
ATTENTION = (
    16,
    16,
    20,
    16,
)  # norm's input and result; queries, keys and values; what attention returns [MiB]
FEED_FORWARD = (16, 16, 112, 56, 16)  # norm's input and result; gate and up; their product; the sum [MiB]
GATHERED = 64  # an input of a product, whole [MiB]
SHAPES = (8192 * 10240 / 4, 8192 * 8192 / 4, 2 * 8192 * 28672 / 4, 8192 * 28672 / 4)
WEIGHTS = [*(SHAPES * LAYERS * VPP), 128256 * 8192 / 4]


def passes() -> Iterator[tuple[bool, int, int]]:
    """Yield forward or not, chunk and micro-batch of the first rank, interleaved (arXiv:2104.04473)."""
    ahead, work = (PP - 1) * 2 + (VPP - 1) * PP, MICRO_BATCHES * VPP
    chunks = [(place % (PP * VPP) // PP, place // (PP * VPP) * PP + place % PP) for place in range(work)]
    for place in range(work + ahead):
        if place < work:
            yield True, *chunks[place]
        if place >= ahead:
            chunk, batch = chunks[place - ahead]
            yield False, VPP - 1 - chunk, batch


def play_passes(memory: Allocator, parts: tuple[tuple[int, ...], ...]) -> None:
    """Keep these parts of each layer from forward to backward."""
    kept: dict[tuple[int, int], list[Block]] = {}
    for forward, chunk, batch in passes():
        if not forward:
            for block in reversed(kept.pop((chunk, batch))):
                memory.give(memory.take(GATHERED * MIB), block)
            continue
        blocks = kept.setdefault((chunk, batch), [])
        for sizes in parts * LAYERS:
            memory.give(memory.take(GATHERED * MIB))
            blocks += [memory.take(size * MIB) for size in sizes]


def play(memory: Allocator, graphed: bool) -> int:
    """Return what is reserved after four steps, of which the last two run with graphs."""
    for nbytes in (2, 4):
        memory.take(nbytes * sum(WEIGHTS))
    states = [memory.take(2 * weights) for weights in WEIGHTS]
    for step in range(4):
        if graphed and step == 2:
            memory.empty()
            memory.private = True
            play_passes(memory, (FEED_FORWARD,))
            memory.private = False
        inside = graphed and step > 1
        play_passes(memory, (ATTENTION,) if inside else (ATTENTION, FEED_FORWARD))
        buffers = [memory.take(2 * weights) for weights in WEIGHTS]
        if not step:
            states += [memory.take(4 * weights) for weights in WEIGHTS]
        buffers += [memory.take(weights) for weights in WEIGHTS]
        memory.give(*buffers)
    return memory.reserved


def predicted(graphed: bool, slack: float) -> float:
    """Return the bytes of the first stage of that job, without context and communicators."""
    workload = Workload(seq_len=4096, global_batch=2 * MICRO_BATCHES)
    job = Job(load_model("llama3-70b"), cluster("dgx-h100"), 32, workload)
    layout = {"tp": 4, "pp": PP, "vpp": VPP, "micro_batch": 1, "zero": 1}
    plan = plan_of(job, **layout, sequence_parallel=True, schedule="interleaved-1f1b")
    counted = {"step_bytes": 6.0, "reserve_share": slack, "framework_bytes": 0.0}
    return estimate(plan, job, runtime(graphed="mlp" if graphed else "", **counted)).stages[0].total


@pytest.mark.parametrize("graphed", [False, True])
def test_growing_segments_need_what_is_counted(graphed: bool) -> None:
    assert predicted(graphed, 0.0) == pytest.approx(play(Allocator(growing=True), graphed), rel=0.02)


def test_a_step_beside_a_graph_needs_more_than_the_passes() -> None:
    assert predicted(True, 0.0) > 1.1 * predicted(False, 0.0)


def test_fixed_segments_run_out_where_growing_ones_do_not() -> None:
    room = play(Allocator(growing=True), graphed=True)
    with pytest.raises(OutOfMemoryError):
        play(Allocator(capacity=room), graphed=True)


@pytest.mark.parametrize("graphed", [False, True])
def test_fixed_segments_hold_more_than_usual_and_less_than_the_share_of_the_sweep(graphed: bool) -> None:
    held = play(Allocator(), graphed)
    fixed = statements().statements["fixed segments"].traits
    assert predicted(graphed, 0.05) < held < predicted(graphed, fixed["reserve_share"])
    play(Allocator(capacity=held - 2 * 2**30), graphed)  # what is free is given back
