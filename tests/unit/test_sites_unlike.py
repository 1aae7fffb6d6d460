"""One job's pipeline over unlike sites: each stage at its own speed, each message over its own link."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.cost.estimate import Estimate
from planner.cost.layer.communication import message_bytes
from planner.cost.price import price
from planner.cost.sites.chain import Chain, stage_sites
from planner.cost.step.played import chunk_pieces, piece_sum
from planner.inputs.build import build
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.sites import SitesProfile
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from planner.search.sites.joint import joint_cluster
from planner.search.sites.rank import search_sites
from planner.search.sites.request import SitesRequest
from planner.search.sites.shares import shared_by_speed
from planner.search.sites.unlike import best_chained, stage_counts
from planner.techniques.sync import SYNCS
from tests.cases import every
from tests.lab.sites.joint import play_job

RUNTIME = runtimes()["megatron-lm"]


def profile(sites: dict[str, tuple[str, int]], rates: dict[tuple[str, str], tuple[str, str]]) -> SitesProfile:
    raw: dict[str, Any] = {
        "name": "unlike",
        "sites": [{"name": name, "cluster": own, "gpus": gpus} for name, (own, gpus) in sites.items()],
        "links": [
            {"between": list(pair), "bandwidth": rate, "round_trip": trip}
            for pair, (rate, trip) in rates.items()
        ],
    }
    return build(SitesProfile, raw, "test")


def chain_of(about: SitesProfile, batch: int = 64) -> Chain:
    clusters = {one.name: load_hardware(one.cluster) for one in about.sites}
    weakest = clusters[about.sites[-1].name]
    pool = weakest.pool.model_copy(update={"gpus": None})
    job = Job(
        load_model("llama3-8b"),
        weakest.model_copy(update={"pools": (pool,)}),
        about.gpus,
        Workload(seq_len=4096, global_batch=batch),
    )
    return Chain(about, clusters, job, RUNTIME, oom_risk=0.05)


def plan_of(about: SitesProfile, stages: int, batch: int = 64, **more: Any) -> Plan:
    dp = about.gpus / stages / 2
    return Plan(
        tp=2.0, pp=float(stages), dp=dp, zero=1, zero_shards=dp, sequence_parallel=True,
        num_microbatches=batch / dp, **more,
    )  # fmt: skip


TWO = {"a": ("dgx-h100", 16), "b": ("dgx-h100", 16)}
MIXED = {"a": ("dgx-h100", 16), "b": ("dgx-a100-80gb", 8)}


@every(("rate", "stages"), [(400, 2), (20, 2), (20, 4)])
def test_alike_sites_are_priced_as_islands(rate: int, stages: int) -> None:
    about = profile(TWO, {("a", "b"): (f"{rate} Gbit/s", "10 ms")})
    chain = chain_of(about)
    plan = plan_of(about, stages)
    cluster = joint_cluster(about, chain.clusters)
    known = price(plan, replace(chain.job, hardware=cluster), RUNTIME)
    assert isinstance(known, Estimate)
    split = {2: (16, 16), 4: (8, 8, 8, 8)}[stages]
    assert chain.step(replace(plan, stage_layers=split)) == pytest.approx(known.step, rel=0.01)


@every("rate", [400, 100, 20])
def test_unlike_stages_are_what_is_played(rate: int) -> None:
    # The twin blocks both ranks of each exchange, as Megatron-LM does; stages 0 and 1 are faster than 2.
    about = profile(MIXED, {("a", "b"): (f"{rate} Gbit/s", "10 ms")})
    assert stage_sites(about, 3) == ("a", "a", "b")
    assert stage_sites(about, 4) == ()
    chain = chain_of(about)
    plan = plan_of(about, 3, stage_layers=(13, 13, 6))
    apart = chain.priced(plan)
    times = []
    for place, home in enumerate(stage_sites(about, 3)):
        parts = apart[home]
        chunk = chunk_pieces(plan, parts.case)[place]
        forward = piece_sum(chunk, parts.costs, "forward")
        times.append((forward, piece_sum(chunk, parts.costs, "seconds") - forward))
    some = apart["a"].case
    nbytes = float(message_bytes(some, plan, 4096.0))
    wires = ((0.0, 0.0), (8 * nbytes / (rate * 1e9 / 8), 0.005), (0.0, 0.0))
    played = play_job(int(plan.num_microbatches), times, wires)
    assert chain.passes(plan, apart) == pytest.approx(played, rel=0.05)
    assert 1.5 < times[2][0] / 6 / (times[0][0] / 13) < 4  # A100 against H100, by layer


def test_each_link_counts_for_itself() -> None:
    # Three alike sites: a wider link between two of them helps, where the narrowest was taken for all before.
    names = {name: ("dgx-h100", 8) for name in "abc"}
    steps = []
    for fast in ("2 Gbit/s", "50 Gbit/s"):
        links = {
            ("a", "b"): (fast, "10 ms"),
            ("b", "c"): ("2 Gbit/s", "10 ms"),
            ("a", "c"): ("1 Gbit/s", "10 ms"),
        }
        chain = chain_of(profile(names, links))
        steps.append(chain.step(plan_of(chain.profile, 3, stage_layers=(11, 11, 10))))
    assert steps[1] < 0.97 * steps[0]


def test_layers_go_by_speed() -> None:
    about = profile(MIXED, {("a", "b"): ("800 Gbit/s", "1 ms")})
    request = SitesRequest(
        profile=about,
        clusters=chain_of(about).clusters,
        model=load_model("llama3-8b"),
        workload=Workload(seq_len=4096, global_batch=64),
        runtime=RUNTIME,
        syncs=(SYNCS["stages"],),
        steps=(100,),
        fixed={"pp": 3, "cp": 1},
    )
    assert stage_counts(request) == [3]
    assert stage_counts(replace(request, fixed={}))[:3] == [3, 6, 12]
    best, _ = best_chained(request)
    assert best is not None
    split = best.known.plan.stage_layers or ()
    assert sum(split) == 32
    assert split[2] < min(split[:2])
    even = best.chain.step(replace(best.known.plan, stage_layers=(11, 11, 10)))
    assert best.step < 0.8 * even
    assert np.isinf(replace(best.chain, memory_limit=2.0**30).step(best.known.plan))


def test_stages_cross_where_networks_are_unlike(tmp_path: Path) -> None:
    # Holmes (arXiv:2312.03549): four nodes of A100 on RoCE and four on InfiniBand, Ethernet between them.
    # Data parallelism keeps to one kind of network and stages cross. Its figures are pictures; its abstract
    # says near to RDMA everywhere (here of the slower kind), far above Ethernet everywhere.
    def cluster(name: str, network: str) -> str:
        path = tmp_path / f"{name}.yaml"
        node = "{base: dgx-a100-80gb, nics: 1}"
        path.write_text(
            f"name: {name}\npools:\n  - {{accelerator: a100-80gb-sxm, node: {node}, network: {network}}}\n"
        )
        return str(path)

    same = cluster("ro", "roce")
    kinds = {"a": (cluster("ib", "infiniband-hdr"), 32), "b": (same, 32)}
    chain = chain_of(profile(kinds, {("a", "b"): ("100 Gbit/s", "100 us")}), batch=512)
    plan = replace(plan_of(chain.profile, 2, batch=512), stage_layers=(16, 16))
    apart = chain.step(plan)
    alone = {}
    for name, own in (("roce", same), ("ethernet", cluster("eth", "ethernet-tcp"))):
        answer = price(plan, replace(chain.job, hardware=load_hardware(own)), RUNTIME)
        assert isinstance(answer, Estimate)
        alone[name] = answer.step
    assert alone["roce"] < apart < alone["ethernet"]
    lost, won = alone["ethernet"] - alone["roce"], alone["ethernet"] - apart
    assert won > 0.75 * lost, (alone, apart)


def test_a_batch_by_speed_leaves_nobody_waiting() -> None:
    about = profile(MIXED, {("a", "b"): ("800 Gbit/s", "1 ms")})
    equal = SitesRequest(
        profile=about,
        clusters=chain_of(about).clusters,
        model=load_model("llama3-8b"),
        workload=Workload(seq_len=4096, global_batch=128),
        runtime=RUNTIME,
        syncs=tuple(SYNCS[name] for name in ("ddp", "diloco")),
        steps=(100,),
        fixed={"tp": 2, "pp": 1, "cp": 1},
        asked=True,
    )
    shared = shared_by_speed(equal)
    batches = [shared.workload_at(name).global_batch for name in "ab"]
    assert shared.workload.global_batch == sum(batches) == shared.whole_workload.global_batch
    assert 128 * 0.8 <= sum(batches) <= 128 * 1.2
    assert 3 < batches[0] / batches[1] < 7  # 16 H100 against 8 A100
    before, after = ({one.sync.name: one for one in search_sites(ask).ranked} for ask in (equal, shared))
    assert before["ddp"].price.utilisation < 0.7
    steps = [one.step for one in after["ddp"].plans.values()]
    assert max(steps) / min(steps) < 1.35
    for name in ("ddp", "diloco"):
        tokens = after[name].step_tokens / before[name].step_tokens
        assert after[name].price.step / tokens < 0.75 * before[name].price.step
        assert after[name].refused
    # Sums weighed by sequences are those of one batch; changes that count alike are not.
    assert (after["ddp"].compute, after["diloco"].compute) == (1.0, None)
