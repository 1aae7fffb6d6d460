"""The floor of a layer, networks whose collectives slow down with their nodes, and nanotron's own ways."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from planner.calibrate.eras import find_era
from planner.calibrate.runs.plan import habit_defaults
from planner.calibrate.runs.table import Run
from planner.cost.case import case_of
from planner.cost.estimate import estimate
from planner.cost.layer.block_cost import priced_layer
from planner.cost.layer.operators import Pricer
from planner.cost.memory.allocator import stalled_seconds
from planner.formulas.collectives import Tier, ring_seconds
from planner.formulas.launches import floored_seconds
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.numeric import doublings
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job, Runtime
from planner.runtimes.nanotron.rules import own_split
from tests.cases import every

PRINTED = {2: 362e9, 4: 160e9, 8: 99.6e9, 16: 84.7e9, 32: 64.9e9, 64: 32.9e9}
"""All-reduce of 256 MB on so many nodes, as the sweep's own page prints it. [byte/s]"""


def test_a_floor_is_a_maximum_with_a_rounded_corner() -> None:
    assert floored_seconds(1.0, 10.0) == pytest.approx(10.0, rel=1e-9)
    assert floored_seconds(10.0, 1.0) == pytest.approx(10.0, rel=1e-9)
    assert floored_seconds(2.0, 2.0) == pytest.approx(2.0 * 2.0 ** (1 / 16))


def test_a_floor_is_the_same_for_one_plan_and_for_many() -> None:
    device = np.linspace(1e-4, 9e-3, 1001)
    many = floored_seconds(device, 4.3e-3)
    assert [float(floored_seconds(float(one), 4.3e-3)) for one in device] == list(np.asarray(many))


def test_doublings_are_the_depth_of_a_tree() -> None:
    numbers = np.arange(1.0, 70.0)
    expected = [math.ceil(math.log2(number)) for number in range(1, 70)]
    assert list(np.asarray(doublings(numbers))) == expected
    assert [doublings(float(number)) for number in numbers] == expected


@every(("nodes", "rate"), PRINTED.items())
def test_one_collective_reaches_what_the_network_is_known_to(nodes: int, rate: float) -> None:
    tiers = [replace(tier, latency=0.0) for tier in load_hardware("p5.48xlarge").pool.tiers]
    ranks = 8.0 * nodes
    seconds = 2 * ring_seconds(256e6, ranks, 1.0, tiers)
    known = min(rate, tiers[0].bandwidth)
    assert 2 * (ranks - 1) / ranks * 256e6 / seconds == pytest.approx(known, rel=1e-3)


def test_a_group_with_one_member_in_a_node_has_its_port_and_no_more() -> None:
    # Eight groups share a node: each has a port of 45 GB/s, below what one collective on 16 nodes reaches.
    tiers = [replace(tier, latency=0.0) for tier in load_hardware("p5.48xlarge").pool.tiers]
    seconds = ring_seconds(1e9, 16.0, 8.0, tiers)
    assert 15 / 16 * 1e9 / seconds == pytest.approx(0.905 * 50e9, rel=1e-6)


def test_a_network_without_a_curve_is_as_it_was() -> None:
    plain = Tier("ib", math.inf, 50e9, 5e-6, 50e9)
    assert ring_seconds(1e9, 64.0, 8.0, [plain]) == ring_seconds(1e9, 64.0, 8.0, [replace(plain, crowd=())])


def test_a_stage_closes_at_its_share_in_runs_and_behind_it_in_code() -> None:
    # Sixteen layers and a head as dear as four: half of it are exactly ten layers.
    model = load_model("llama-3.2-1b").model_copy(update={"vocab": 131072})
    block = model.blocks[model.layers[0]]
    layer = 4 * model.hidden**2 + 3 * block.ffn.inner * model.hidden
    assert model.num_layers == 16
    assert model.vocab * model.hidden == 4 * layer
    assert own_split(model, 2) == (11, 5)
    assert own_split(model, 2, at_share=True) == (10, 6)
    assert own_split(model, 4, at_share=True) == (5, 5, 5, 1)


@every(("gpus", "pp", "tp", "sequence"), [(8, 2, 2, 0), (16, 2, 2, 1), (16, 1, 2, 0), (16, 2, 1, 0)])
def test_a_blank_mode_of_tensor_parallelism_is_that_of_the_layout(
    gpus: int, pp: int, tp: int, sequence: int
) -> None:
    era = find_era("nanotron", "h100-80gb-sxm", None)
    assert era is not None
    row = Run(line=2, id="x", source="s", num_gpus=gpus, gpus_per_node=8, pp=pp, tp=tp)
    assert habit_defaults(row, era)["seq_parallel"] == sequence


def job_on(gpus: int, batch: int) -> Job:
    work = Workload(seq_len=4096, global_batch=batch)
    return Job(
        model=load_model("llama-2-7b"), hardware=load_hardware("p5.48xlarge"), gpus=gpus, workload=work
    )


def with_traits(**changes: object) -> Runtime:
    runtime = runtimes()["nanotron"]
    return runtime.with_traits(**changes)


SMALL = Plan(tp=8.0, dp=1.0, num_microbatches=16.0)


def test_a_layer_takes_no_less_than_its_host() -> None:
    job, plan = job_on(8, 16), SMALL
    floored = estimate(plan, job, with_traits(layer_floor_seconds=0.05)).step
    twice = estimate(plan, job, with_traits(layer_floor_seconds=0.1)).step
    # 32 layers and 16 micro-batches, far above what their kernels take.
    assert twice - floored == pytest.approx(32 * 16 * 0.05, rel=1e-3)


def test_nearly_full_devices_block_at_messages_in_pipelines_alone() -> None:
    case = case_of(replace(SMALL, pp=4.0), job_on(32, 16), with_traits(full_message_seconds=0.2))
    full, empty = case.pool.accelerator.memory_usable, 1e9
    slots = 16 + 4 - 1
    assert stalled_seconds(case, replace(SMALL, pp=4.0), full) == pytest.approx(0.2 * 4 * slots, rel=0.01)
    assert stalled_seconds(case, replace(SMALL, pp=2.0), full) == pytest.approx(0.2 * 2 * 17, rel=0.01)
    assert stalled_seconds(case, SMALL, full) == 0.0
    assert stalled_seconds(case, replace(SMALL, pp=4.0), empty) < 1e-6


def test_pipelines_on_many_nodes_of_a_network_that_crowds_block_at_messages() -> None:
    """64 nodes of EFA, not 63, and not of InfiniBand."""
    plan = replace(SMALL, pp=2.0)

    def stalled(job: Job) -> float:
        return float(stalled_seconds(case_of(plan, job, with_traits(full_message_seconds=0.2)), plan, 1e9))

    assert stalled(job_on(512, 16)) == pytest.approx(0.2 * 2 * 17)
    assert stalled(job_on(504, 16)) < 1e-6
    assert stalled(replace(job_on(512, 16), hardware=load_hardware("dgx-h100"))) < 1e-6


def test_rings_of_each_parameter_cost_their_latency() -> None:
    job, plan = job_on(64, 16), Plan(tp=8.0, dp=8.0, num_microbatches=2.0, zero=1, zero_shards=8.0)
    apart, whole = (
        estimate(plan, job, with_traits(engine=name)).step
        for name in ("nanotron-zero", "distributed-optimizer")
    )
    # Nine parameters of 32 layers, seven hops of 25 us, both ways, of which LL has 0.18 and LL128 0.56.
    most = 2 * 9 * 32 * 7 * 25e-6 * 0.56 / runtimes()["nanotron"].traits.data.rate_share
    assert 0.0 < apart - whole <= 1.001 * most


@every(("tp", "sequence", "switched"), [(8, False, True), (8, True, False), (4, False, False)])
def test_all_reduces_of_nanotron_in_a_whole_node_are_added_up_in_its_switches(
    tp: int, sequence: bool, switched: bool
) -> None:
    """As NCCL does unless told not to; gathers and reduce-scatters go round, and so do fewer ranks."""
    job = job_on(8, 64)
    plan = replace(SMALL, tp=float(tp), dp=8.0 / tp, micro_batch=8.0, sequence_parallel=sequence)
    inside, around = (
        priced_layer(Pricer(case_of(plan, job, with_traits(switch_reductions=on)), plan), job.model.layers[0])
        for on in (True, False)
    )
    assert runtimes()["nanotron"].traits.tensor.switch_reductions
    assert (inside.exchanges.tp.forward < 0.8 * around.exchanges.tp.forward) == switched
    assert switched or inside.exchanges.tp == around.exchanges.tp
