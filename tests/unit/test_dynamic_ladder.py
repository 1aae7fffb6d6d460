"""What context parallelism by length gains, rung by rung, in the papers of ByteScale and Zeppelin.

Of ByteScale's own data 80% of documents have at most 4 K tokens and 0.05% have 2 M or more
(arXiv:2502.21231, as https://www.aibase.com/news/17454 quotes it): the lognormal law through both has 45% of
its tokens in documents beyond 256 K, where 37% are printed. Of GitHub that share alone is known, 9.8%; its
table is lognormal with a mean of 8 K; with means of 16 K and 32 K the gains differ by less than an eighth.
Neither prints how many tokens a step has: 16 sequences here, and with 32 the ladder's rungs are a tenth to a
fifth higher.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from planner.cost.estimate import Estimate, estimate
from planner.cost.step.uneven_steps import UnevenSteps
from planner.formulas.collectives import Tier
from planner.formulas.messages import routed_shift_seconds, shift_seconds
from planner.inputs.lengths import lengths_of, packed, read_lengths
from planner.inputs.load import load_model
from planner.inputs.load_hardware import load_hardware
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Job
from tests.cases import every

CONTEXT = 2**21
OWN = {4096: 0.8, CONTEXT - 1: 0.9995}
"""Share of the documents of ByteScale's own data that have so many tokens at most."""
GITHUB = (1.65, 0.098)
"""Spread of the logarithm, and the share of tokens beyond 256 K that it gives."""
MEGATRON = runtimes()["megatron-lm"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write 20,000 quantiles of each law."""
    normal, folder = ndtri((np.arange(20_000) + 0.5) / 20_000), tmp_path_factory.mktemp("lengths")
    (short, long), (least, most) = np.log(list(OWN)), ndtri(list(OWN.values()))
    spread = (long - short) / (most - least)
    laws = {"own": np.exp(short + spread * (normal - least))}
    low, high = 1.0, float(CONTEXT)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        below = np.clip(middle * np.exp(GITHUB[0] * normal), 1, CONTEXT).mean() < 8192
        low, high = (middle, high) if below else (low, middle)
    laws["github"] = low * np.exp(GITHUB[0] * normal)
    found = {}
    for name, law in laws.items():
        lengths = np.rint(np.clip(law, 1, CONTEXT)).astype(int)
        path = folder / f"{name}.csv"
        path.write_text("length\n" + "\n".join(map(str, lengths)) + "\n")
        found[name] = read_lengths(str(path))
    return found


def priced(source: str | None, offload: str = "none", by_length: bool = True) -> Estimate:
    """Price 7B at 2 M tokens on 1,024 accelerators, whose static mesh is as wide as the longest needs."""
    work = Workload(seq_len=CONTEXT, global_batch=16, seq_lens=source)
    job = Job(load_model("llama2-7b"), load_hardware("hgx-h800"), 1024, work)
    plan = Plan(cp=256.0, dp=4.0, zero=1, zero_shards=1024.0, num_microbatches=4.0, offload=offload)
    return estimate(plan, job, MEGATRON.with_traits(context_by_length=by_length))


def test_the_tables_have_the_shares_that_are_printed(tables: dict[str, str]) -> None:
    own, github = (lengths_of(tables[name]).astype(float) for name in ("own", "github"))
    assert (own <= 4096).mean() == pytest.approx(0.8, abs=1e-4)
    assert (own >= CONTEXT - 1).mean() == pytest.approx(0.0005, abs=1e-4)
    assert 0.37 < own[own > 2**18].sum() / own.sum() < 0.46
    assert github[github > 2**18].sum() / github.sum() == pytest.approx(GITHUB[1], rel=0.03)


def test_the_rungs_of_bytescale(tables: dict[str, str]) -> None:
    """1.00, 1.59, 2.01, 3.69 (fig. 20); priced 1.88, 2.12, 4.02.

    Documents with their own ranks, half of the layers' activations away, and work balanced; the last rung, a
    remote loader, is not priced. The first is 1.91 in fig. 18 of the same paper: the price lies between.
    """
    static = priced(tables["own"], by_length=False).step
    away = priced(tables["own"], "activations:15")
    steps = (UnevenSteps(priced(tables["own"])).unbalanced, UnevenSteps(away).unbalanced, away.step)
    rungs = [static / step for step in steps]
    assert rungs == sorted(rungs)
    assert 1.59 < rungs[0] < 520 / 272
    assert rungs[1:] == pytest.approx((2.01, 3.69), rel=0.09)


def test_the_step_without_offload(tables: dict[str, str]) -> None:
    """8m40, 4m32 and 2m37 (fig. 18)."""
    static, own = priced(tables["own"], by_length=False), priced(tables["own"])
    found = (static.step / UnevenSteps(own).unbalanced, static.step / own.step)
    assert found == pytest.approx((520 / 272, 520 / 157), rel=0.1)


def test_short_documents_gain_the_most(tables: dict[str, str]) -> None:
    """Up to 7.89 times on GitHub (fig. 17), priced 11; messages are 97.6% of a micro-batch (fig. 18)."""
    static = priced(tables["github"], by_length=False)
    assert 7.89 < static.step / priced(tables["github"]).step < 1.45 * 7.89
    assert static.time.cp_comm / (static.time.cp_comm + static.time.compute) == pytest.approx(0.976, abs=0.01)


def test_alike_lengths_gain_nothing_rung_by_rung() -> None:
    alike = read_lengths(f"lognormal:mean={CONTEXT},max={CONTEXT},seed=1")
    static, own = priced(alike, by_length=False), priced(alike)
    assert own.step == pytest.approx(static.step, rel=1e-9)
    assert UnevenSteps(own).unbalanced == pytest.approx(static.step, rel=1e-9)


def test_a_part_over_all_ports_of_a_node() -> None:
    """Zeppelin (arXiv:2509.21841): 2.18 ms of a 64 K sequence become 411 us.

    Priced, spreading, sending and gathering follow one another (0.75 ms); piece by piece they would take as
    long as the longest (0.27 ms). What was measured lies between.
    """
    tiers = [Tier("nvlink", 8, 200e9, 0.0, 200e9), Tier("network", np.inf, 25e9, 0.0, 25e9)]
    whole = 16 * 2.18e-3 * 25e9
    plain, routed = (
        float(seconds(whole, 16.0, 1.0, tiers)) / 15 for seconds in (shift_seconds, routed_shift_seconds)
    )
    assert plain == pytest.approx(2.18e-3)
    assert plain / 8 < 411e-6 < routed < plain / 2


@every(("ranks", "stride"), [(8.0, 1.0), (4.0, 2.0), (16.0, 8.0)])
def test_a_ring_inside_a_node_or_of_one_rank_in_each_has_nothing_to_spread(
    ranks: float, stride: float
) -> None:
    tiers = [Tier("nvlink", 8, 200e9, 1e-6, 200e9), Tier("network", np.inf, 25e9, 5e-6, 25e9)]
    routed = float(routed_shift_seconds(1e9, ranks, stride, tiers))
    assert routed == pytest.approx(float(shift_seconds(1e9, ranks, stride, tiers)))


def test_many_short_documents_send_nothing() -> None:
    """Zeppelin: 105.44 ms become 21.504 ms, since no short document leaves its rank."""
    work = Workload(seq_len=65536, global_batch=4, seq_lens="lognormal:mean=1024,max=4096,seed=1")
    assert packed(work.seq_lens or "", 65536).filled > 0.9
    job = Job(load_model("llama2-7b"), load_hardware("hgx-a800"), 16, work)
    plan = Plan(cp=16.0, zero=1, zero_shards=16.0, num_microbatches=4.0)
    static, own = (estimate(plan, job, MEGATRON.with_traits(context_by_length=way)) for way in (False, True))
    assert own.time.cp_comm == own.sent.cp == 0.0
    assert static.step / own.step > 105.44 / 21.504
