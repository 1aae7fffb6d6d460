"""Islands of a cluster that a slower link joins: prices, rules, files, and the same steps played."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.layer.communication import message_bytes
from planner.cost.price import price
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import chunk_pieces, piece_sum, wire_tiers
from planner.cost.step.replay import played_step
from planner.cost.traffic.messages import rank_messages
from planner.errors import InputError
from planner.formulas.collectives import Tier, all_to_all_seconds
from planner.formulas.messages import shared_seconds
from planner.inputs.hardware import HardwareProfile
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every
from tests.lab.sites.joint import play_job

FILE = "name: two\nbase: dgx-h100\nislands: {{gpus: {gpus}, bandwidth: {rate}, latency: {latency}}}\n"


def islands(folder: Path, rate: str = "100 Gbit/s", latency: str = "5 ms", gpus: int = 16) -> HardwareProfile:
    path = folder / "islands.yaml"
    path.write_text(FILE.format(rate=rate, latency=latency, gpus=gpus))
    return load_hardware(str(path))


def priced(
    cluster: HardwareProfile, runtime: str = "megatron-lm", gpus: int = 32, **degrees: float
) -> Estimate:
    work = Workload(seq_len=4096, global_batch=128)
    plan = Plan(**{"tp": 2.0, "zero": 1, "sequence_parallel": True, **degrees})  # type: ignore[arg-type]
    dp = gpus / plan.tp / plan.pp
    plan = replace(plan, dp=dp, zero_shards=degrees.get("zero_shards", dp), num_microbatches=128 / dp)
    answer = price(plan, Job(load_model("llama3-8b"), cluster, gpus, work), runtimes()[runtime])
    assert isinstance(answer, Estimate)
    return answer


@every("oversubscribed", [2.0, 4.0, 8.0])
def test_an_all_to_all_over_a_spine_takes_its_share_of_fewer_links(oversubscribed: float) -> None:
    """Planned paths or ideal spraying (arXiv:2407.00550): bytes that leave a leaf over its uplinks."""
    rate, nbytes, ranks = 50e9, 1e9, 64
    inside = (Tier("a", 8, 450e9, 0.0, 450e9), Tier("b", 32, rate, 0.0, rate))
    spine = Tier("c", np.inf, rate / oversubscribed, 0.0, rate / oversubscribed)
    leaving = nbytes * (ranks - 32) / ranks
    assert float(all_to_all_seconds(nbytes, ranks, 1, (*inside, spine))) == pytest.approx(
        oversubscribed * leaving / rate
    )


def test_messages_of_a_stage_share_the_link(tmp_path: Path) -> None:
    # 8 ranks a stage send 4,096 x 4,096 / 2 elements of 2 bytes each over 12.5 GB/s: 10.7 ms, and 5 ms.
    answer = priced(islands(tmp_path), pp=4.0)
    case = case_of(answer.plan, answer.job, answer.runtime)
    nbytes = float(message_bytes(case, answer.plan, 4096.0))
    assert nbytes == 4096 * 4096
    link = case.tiers[-1]
    assert float(shared_seconds(nbytes, link, 8.0)) == pytest.approx(0.005 + 8 * nbytes / 12.5e9)
    assert wire_tiers(answer.plan, case)[1] == len(case.tiers) - 1 > wire_tiers(answer.plan, case)[0]
    assert answer.time.pp_comm > 32 * 0.0157


def test_a_pass_waits_for_one_message_of_a_shared_link() -> None:
    near, far = Tier("a", 4, 1e9, 0.0, 1e9), Tier("b", np.inf, 1e8, 0.0, 1e9, shared=1e9)
    placed = lambda chunk, pp, vpp: chunk % pp  # noqa: E731
    assert rank_messages(placed, (2, 1), (near, far), (4.0, 0.0)) == ({1: 1.0}, {1: 1.0})
    assert rank_messages(placed, (4, 1), (near, far), (2.0, 0.0)) == (
        {0: 2.0},
        {0: 1.0, 1: 1.0},
        {1: 1.0, 0: 1.0},
        {0: 2.0},
    )
    own = replace(far, shared=0.0)
    assert rank_messages(placed, (2, 1), (near, own), (4.0, 0.0)) == ({1: 2.0}, {1: 2.0})


def test_a_fast_short_link_is_no_link(tmp_path: Path) -> None:
    plain = load_hardware("dgx-h100")
    for pp in (1.0, 2.0, 4.0):
        fast = priced(islands(tmp_path, "100 Tbit/s", "5 us"), pp=pp)
        assert fast.step == pytest.approx(priced(plain, pp=pp).step, rel=0.02)


@every("pp", [1.0, 2.0, 4.0])
def test_a_slower_link_takes_longer(tmp_path: Path, pp: float) -> None:
    steps = [priced(islands(tmp_path, f"{rate} Gbit/s"), pp=pp).step for rate in (1, 10, 100, 1000)]
    assert steps == sorted(steps, reverse=True)


def test_gradients_of_an_island_share_the_link(tmp_path: Path) -> None:
    # States are sharded inside each island, so that its ranks together send all gradients once each way.
    answer = priced(islands(tmp_path, "10 Gbit/s", "1 ms"), zero_shards=8.0)
    wanted = 2 * (1 - 1 / 2) * 4 * load_model("llama3-8b").params / 1.25e9
    assert answer.time.dp_comm == pytest.approx(wanted, rel=0.05)


@every(("pp", "rate"), [(2.0, 400), (2.0, 100), (2.0, 20), (4.0, 400), (4.0, 100), (4.0, 20), (8.0, 100)])
def test_stages_in_islands_are_what_is_played(tmp_path: Path, pp: float, rate: float) -> None:
    # The twin blocks both ranks of each exchange, as Megatron-LM does, on links that carry one at a time.
    answer = priced(islands(tmp_path, f"{rate} Gbit/s"), pp=pp)
    case, plan = case_of(answer.plan, answer.job, answer.runtime), answer.plan
    parts = PlanParts(plan, case)
    times = []
    for chunk in chunk_pieces(plan, case):
        forward = piece_sum(chunk, parts.costs, "forward")
        times.append((forward, piece_sum(chunk, parts.costs, "seconds") - forward))
    nbytes = float(message_bytes(case, plan, 4096.0))
    far = len(case.tiers) - 1
    wires = tuple(
        (nbytes * answer.job.gpus / plan.pp / case.tiers[far].shared, case.tiers[far].latency)
        if tier == far
        else (0.0, 0.0)
        for tier in wire_tiers(plan, case)
    )
    tail = float(np.max(parts.step.data_parallel + parts.step.optimizer))
    passes = play_job(int(plan.num_microbatches), times, wires)
    assert passes == pytest.approx(answer.step - tail, rel=0.05)
    assert played_step(answer) == pytest.approx(answer.step, rel=0.05)


@every(
    ("gpus", "pp", "rule"),
    [(48, 1.0, None), (40, 1.0, "islands-are-whole"), (48, 2.0, "stages-keep-to-islands")],
)
def test_rules_of_islands(tmp_path: Path, gpus: int, pp: float, rule: str | None) -> None:
    cluster = islands(tmp_path)
    work = Workload(seq_len=4096, global_batch=240)
    plan = Plan(
        tp=2.0, pp=pp, dp=gpus / 2 / pp, zero_shards=gpus / 2 / pp, num_microbatches=240 / (gpus / 2 / pp)
    )
    answer = price(plan, Job(load_model("llama3-8b"), cluster, gpus, work), runtimes()["megatron-lm"])
    broken = {one.rule for one in answer.violations} & {"islands-are-whole", "stages-keep-to-islands"}
    assert rule in broken if rule else not broken


def test_islands_hold_whole_nodes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="multiple of 8"):
        islands(tmp_path, gpus=12)
    with pytest.raises(InputError, match="30 ms"):
        islands(tmp_path, latency="30 s")
