"""Closed forms of exchanges against the same exchanges played event by event, method by method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.cost.sites.price import Way, price_way
from planner.cost.sites.routes import slowest_of
from planner.inputs.sites import SitesProfile
from planner.techniques.compress import read_compression
from planner.techniques.sync import SYNCS
from tests.cases import every
from tests.lab.sites.exchanges import play
from tests.lab.sites.pipeline import play_stages
from tests.unit.test_sites_price import sites, trained, way

EXCHANGED = [name for name, sync in SYNCS.items() if sync.pattern not in ("stages", "pipeline")]
STAGED = [name for name, sync in SYNCS.items() if sync.pattern == "stages"]
JOBS = [name for name, sync in SYNCS.items() if sync.pattern == "pipeline"]


def test_every_method_is_played() -> None:
    # The pipeline of one job in tests/unit/test_islands.py, with the order and the calls of its library.
    assert sorted([*EXCHANGED, *STAGED, *JOBS]) == sorted(SYNCS)
    assert JOBS == ["stages"]


def drawn(name: str, seed: int) -> tuple[Way, SitesProfile, float]:
    """Return a way and links between very slow and very fast."""
    draw = np.random.default_rng(seed)
    rate, step = 10 ** draw.uniform(-1, 3), 10 ** draw.uniform(-1, 1.5)
    profile = sites(*"abcd"[: draw.integers(2, 5)], rate=f"{rate} Gbit/s", trip=f"{draw.uniform(1, 300)} ms")
    compress = str(draw.choice(["none", "int8", "int4", "topk:2%", "ternary"]))
    return way(name, int(draw.integers(1, 60)), compress, int(draw.integers(0, 6))), profile, step


@every("name", EXCHANGED)
def test_a_closed_form_is_what_is_played(name: str) -> None:
    for seed in range(12):
        chosen, profile, step = drawn(name, seed)
        about = trained(profile, step)
        price, played = price_way(chosen, about), play(chosen, about, periods=12)
        if about.replicas % 2 and chosen.sync.pattern == "pair":
            assert played.step <= price.step * (1 + 1e-9)  # of three, one meets nobody
            continue
        assert played.step == pytest.approx(price.step, rel=1e-9)
        assert 1 - played.waiting == pytest.approx(price.utilisation, rel=1e-9)


@every("name", EXCHANGED)
def test_stragglers_are_waited_for_no_longer_than_priced(name: str) -> None:
    profile = sites("a", "b", "c", "d", rate="100 Gbit/s", trip="1 ms")
    wide = tuple(one.model_copy(update={"deviation": 0.2}) for one in profile.sites)
    about = trained(profile.model_copy(update={"sites": wide}), 10.0)
    chosen = way(name, 20, delay=1)
    played = np.mean([play(chosen, about, periods=60, seed=seed).step for seed in range(5)])
    waited = price_way(chosen, about).step
    if chosen.sync.timing(20, 32, 1).sends[0].window == 0:
        assert played == pytest.approx(waited, rel=0.02)
    # A window hides some of the waiting too, which is not counted on; by the clock it is less than a step.
    late = 1.01 if chosen.sync.waits else 1.0 + 1.0 / 20
    assert price_way(chosen, trained(profile, 10.0)).step * 0.99 < played < waited * late


def test_clocks_wait_for_nobody() -> None:
    profile = sites("a", "b", rate="1000 Gbit/s", trip="1 ms")
    about = trained(profile, seconds={"a": 1.0, "b": 3.0})
    met, alone = (play(way(name, 50), about, periods=5).step for name in ("edit", "a-edit"))
    assert met == pytest.approx(3.0, rel=0.01)
    assert alone == pytest.approx(1.5, rel=0.01)


@every("count", [2, 4, 16])
def test_the_slowest_of_several_is_drawn(count: int) -> None:
    draws = np.random.default_rng(1).standard_normal((100_000, count)).max(axis=1)
    assert slowest_of(count) == pytest.approx(draws.mean(), rel=0.02)


@every("name", STAGED)
def test_stages_over_sites_are_what_is_played(name: str) -> None:
    # SWARM (arXiv:2301.11913): throughput is that of the slowest of stages and links, and the pipeline fills.
    # SkipPipe (arXiv:2502.19913): two of three sites for each micro-batch, each pair by a link of its own.
    for rate in (0.05, 0.5, 5.0, 500.0):
        for names in ("ab", "abc") if name == "swarm" else ("abc",):
            profile = sites(*names, rate=f"{rate} Gbit/s", trip="2 ms")
            about = replace(trained(profile, 20.0), micro_batches=24, tokens=2.0**20)
            chosen = Way(SYNCS[name], 1, read_compression("int8"))
            price = price_way(chosen, about)
            played = play_stages(chosen, about)
            assert played <= price.step * 1.06
            # Half of the micro-batches go over each link, where the price has two thirds of them.
            least = 0.94 if name == "swarm" or rate > 1 else 0.7
            assert played >= price.step * least
