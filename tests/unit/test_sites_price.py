"""What an exchange between sites costs: printed figures, hand arithmetic, and laws."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from planner.cost.sites.price import Trained, Way, price_way
from planner.cost.sites.routes import chain_order, chain_rate, pair_route, ring_order, ring_route
from planner.errors import InputError
from planner.formulas.low_communication import (
    exchange_period,
    gathered_bytes,
    sparse_bytes,
)
from planner.inputs.build import build
from planner.inputs.load import load_model
from planner.inputs.sites import SitesProfile
from planner.search.sites.rank import short_hosts
from planner.techniques.compress import read_compression
from planner.techniques.sync import SYNCS
from planner.units import GIB
from tests.cases import every


def sites(*names: str, rate: str = "1 Gbit/s", trip: str = "100 ms", **links: Any) -> SitesProfile:
    """Return sites of 8 accelerators, all pairs joined alike; ``links`` are fields of each."""
    pairs = [(one, other) for place, one in enumerate(names) for other in names[place + 1 :]]
    raw = {
        "name": "test",
        "sites": [{"name": name, "cluster": "dgx-h100", "gpus": 8} for name in names],
        "links": [{"between": list(pair), "bandwidth": rate, "round_trip": trip, **links} for pair in pairs],
    }
    return build(SitesProfile, raw, "test")


def trained(profile: SitesProfile, step: float = 10.0, **changes: Any) -> Trained:
    model = load_model("llama3-8b")
    seconds = {one.name: step for one in profile.sites}
    plain = Trained(profile, model, 1e6, seconds, memory_rate=1e30, shards=8.0)
    return replace(plain, **changes)


def way(sync: str, steps: int = 100, compress: str = "", delay: int = 0) -> Way:
    entry = SYNCS[sync]
    return Way(entry, steps, read_compression(compress or entry.compress), delay)


@every(("exchange", "utilisation", "mfu"), [(103, 95.7, 41.4), (382, 85.6, 37.1), (469, 83.0, 36.0)])
def test_intellect_1_computes_as_much_as_it_printed(exchange: int, utilisation: float, mfu: float) -> None:
    # arXiv:2412.01152, table 2: 100 inner steps in 38 min, MFU 43.3% without exchanges.
    share = 2280.0 / exchange_period(2280.0, float(exchange), 0.0)
    assert 100 * share == pytest.approx(utilisation, abs=0.1)  # the minutes are whole
    assert 43.3 * share == pytest.approx(mfu, abs=0.15)


def test_diloco_by_hand() -> None:
    # 8.03e9 parameters in 4 bytes round a ring of two over 1 Gbit/s: each sends them once; two hops of 50 ms.
    price = price_way(way("diloco"), trained(sites("a", "b")))
    wanted = 4 * 8030261248 / 125e6 + 2 * 0.05
    assert price.exchanges == pytest.approx((wanted,))
    assert price.step == pytest.approx((1000 + wanted) / 100)
    assert price.utilisation == pytest.approx(1000 / (1000 + wanted))
    assert price.mean["a", "b"] == pytest.approx(4 * 8030261248 / (1000 + wanted))
    assert price.peak["a", "b"] == pytest.approx(125e6)
    # torchft's momentum stays, the change and a clone of the parameters are there while they are exchanged.
    assert price.device_bytes * 8 == 3 * 4 * 8030261248
    tenths = price_way(way("streaming", 100, delay=1), trained(sites("a", "b")))
    assert tenths.timing.fragments == 10
    assert tenths.device_bytes * 8 == pytest.approx(1.2 * 4 * 8030261248)


def test_what_no_host_has_room_for_is_told() -> None:
    # 8.03e9 parameters in 4 bytes over 8 accelerators of one node: 29.9 GiB on it.
    price = price_way(way("diloco"), trained(sites("a", "b")))
    large, cluster = SimpleNamespace(host_memory=40 * GIB), SimpleNamespace(gpus_per_node=8)
    small = SimpleNamespace(host_memory=36 * GIB)
    clusters = {
        name: SimpleNamespace(pool=SimpleNamespace(node=node, **vars(cluster)))
        for name, node in (("a", large), ("b", small), ("c", SimpleNamespace(host_memory=None)))
    }
    request: Any = SimpleNamespace(clusters=clusters)
    assert list(short_hosts(price, request)) == [
        "30 GiB on a node of b, which has 29 GiB of host memory to give"
    ]


def test_an_all_reduce_in_eight_bits_every_hundred_steps_sends_400_times_less() -> None:
    # arXiv:2412.01152: 400x is H = 100 times 32 over 8 bits; of frequency, not of peak bandwidth.
    profile = sites("a", "b", "c")
    each_step, rarely = (price_way(one, trained(profile)) for one in (way("ddp"), way("diloco", 100, "int8")))
    sent = [one.mean["a", "b"] * one.step for one in (each_step, rarely)]
    assert sent[0] / sent[1] == pytest.approx(400)
    assert each_step.peak == rarely.peak


def test_des_loc_sends_170_times_less_than_data_parallelism_and_half_of_local_adam() -> None:
    # arXiv:2505.22549: K_u = 3 K_x and K_v = 6 K_x at K_x = 256, Local Adam averages all three at K_x.
    apart = 1 / 256 + 1 / 768 + 1 / 1536
    assert 1 / apart == pytest.approx(170.7, abs=0.05)
    assert 3 / 256 / apart == pytest.approx(2.0)
    assert SYNCS["des-loc"].timing(256, 32, 0).models_per_step == pytest.approx(apart)


def test_three_states_every_32_steps_are_exchanged_ten_times_less() -> None:
    # arXiv:2510.05361 (MT-DAO): parameters, one momentum and second moments each at 32 steps, 10.7x.
    assert 1 / SYNCS["mt-dao"].timing(32, 24, 0).models_per_step == pytest.approx(10.7, abs=0.05)
    ddp, rarely = (price_way(one, trained(sites("a", "b"))) for one in (way("ddp"), way("mt-dao", 32)))
    sent = [one.mean["a", "b"] * one.step for one in (ddp, rarely)]
    assert sent[0] / sent[1] == pytest.approx(10.7, abs=0.05)


def test_coefficients_gathered_by_all_meet_a_ring_at_128_nodes() -> None:
    # arXiv:2502.06728 and its code: 32 of 64 x 64 coefficients, each of 4 bytes with a place of 4: 0.0625
    # bytes a parameter, 64 times less than fp32. All nodes receive those of all others; a ring of fp32 sums
    # takes 2 x 4 (R - 1) / R bytes, however many there are.
    sent = read_compression("dct").sent_bytes
    assert sent == 0.0625 == 4.0 / 64.0
    profile = sites("a", "b")
    price = price_way(way("flexdemo"), trained(profile))
    assert price.mean["a", "b"] * price.step == pytest.approx(sent * load_model("llama3-8b").params)
    for nodes, cheaper in ((127.0, True), (129.0, False)):
        assert (float(gathered_bytes(sent, nodes)) < 8.0 * (nodes - 1) / nodes) == cheaper


def test_rounds_of_the_quadratic_rule_are_those_played_out() -> None:
    # arXiv:2310.14423, eq. 2 and its code: max(H_min, int((alpha / lr)^2)). The twin plays the rule over a
    # cosine of 200,000 steps; the coefficient gives 50 steps at the peak.
    total, step, rounds = 200_000, 0, 0
    while step < total:
        rate = 0.1 + 0.9 * (1 + math.cos(math.pi * step / total)) / 2
        step += max(50, int((math.sqrt(50.0) / rate) ** 2))
        rounds += 1
    assert SYNCS["qsr"].timing(50, 32, 0).period == pytest.approx(total / rounds, rel=0.01)


def test_sparseloco_sends_114_times_less_and_receives_more_with_replicas() -> None:
    # arXiv:2508.15706: 1% in 2 bits with 12-bit places, against bf16. By hand: 16 / (0.01 * 14) = 114.
    bits = 8 * float(sparse_bytes(0.01, 0.25, 1.5))
    assert 16 / bits == pytest.approx(114, abs=0.5)
    dense = 2 * 16 * 31 / 32
    assert dense / float(gathered_bytes(8 * sparse_bytes(0.03, 0.25, 1.5), 32.0)) == pytest.approx(
        2.4, abs=0.05
    )
    few, many = (ring_route(sites(*names), sums=False) for names in ("ab", "abcd"))
    assert many.hops[0].share == 3 * few.hops[0].share


@every(("dense", "sent", "ratio"), [(97e6, 0.35e6, 277), (488e6, 0.74e6, 659)])
def test_gradient_compression_of_dgc_is_a_tenth_of_a_per_cent_with_places(
    dense: float, sent: float, ratio: float
) -> None:
    # arXiv:1712.01887: ResNet-50 97 MB to 0.35, DeepSpeech 488 MB to 0.74. Of one rank's send alone.
    assert dense / sent == pytest.approx(ratio, rel=0.002)
    per_parameter = 4 * sent / dense
    assert sparse_bytes(0.001, 4.0, 0.0) < per_parameter < sparse_bytes(0.001, 8.0, 8.0)


def test_ternary_is_sixteen_times_smaller_than_full_precision() -> None:
    # arXiv:1705.07878: 2 bits of 32; the limit is 32 / log2(3) = 20.2.
    assert 4.0 / read_compression("ternary").sent_bytes == 16 < 32 / math.log2(3)


def test_co2_hides_what_its_local_steps_cover() -> None:
    # arXiv:2401.16265: fully hidden where tau c is at least the all-reduce, else the difference each period.
    profile = sites("a", "b", rate="8 Gbit/s", trip="1 ms")
    whole = price_way(way("co2", 48), trained(profile, 1.0))
    assert whole.utilisation == 1.0
    short = price_way(way("co2", 12), trained(profile, 1.0))
    assert short.period == pytest.approx(short.exchanges[0])


def test_eager_and_diloco_x_overlap_a_whole_period() -> None:
    # arXiv:2506.21263: a step takes max(c, t/H) where everything overlaps, c + t of a plain all-reduce. 107e9
    # in bf16 over 1 Gbit/s is 3,424 s, so 357x is what a step of 9.6 s has that hides 4 bits at H = 125.
    late = price_way(way("diloco-x", 125), trained(sites("a", "b")))
    assert late.step == pytest.approx(max(10.0, late.exchanges[0] / 125))
    plain = 2 * 107e9 * 2 / 125e6
    assert plain == pytest.approx(3424)
    hidden = exchange_period(125 * 9.62, plain / 4, 125 * 9.62) / 125
    assert exchange_period(9.62, plain, 0.0) / hidden == pytest.approx(357, abs=1)


def test_pairs_do_not_grow_with_the_replicas() -> None:
    # arXiv:2506.10911: outer gradient and slow weights to one peer, not a function of the replicas.
    few, many = (price_way(way("noloco"), trained(sites(*names))) for names in ("abcd", "abcdefgh"))
    assert many.step == few.step
    assert price_way(way("diloco"), trained(sites(*"abcdefgh"))).exchanges > few.exchanges
    assert few.exchanges[0] == few.exchanges[1]
    assert few.exchanges[0] == pytest.approx(4 * 8030261248 / 125e6 + 0.05)


def test_a_ring_avoids_the_slow_link() -> None:
    # arXiv:2505.14065: a ring runs at its slowest link. Of four sites the ring leaves out two links.
    profile = sites("a", "b", "c", "d", rate="10 Gbit/s")
    links = tuple(
        link.model_copy(update={"bandwidth": link.bandwidth.__class__(1e6)})
        if set(link.between) in ({"a", "b"}, {"c", "d"})
        else link
        for link in profile.links
    )
    slow = profile.model_copy(update={"links": links})
    assert ring_order(slow) == ("a", "c", "b", "d")
    assert min(hop.rate for hop in ring_route(slow, sums=True).hops) == 1.25e9


def test_an_uplink_and_few_streams_hold_a_link_back() -> None:
    # Eight connections of 1 MiB over 100 ms carry 80 MiB/s, whatever the link.
    profile = sites("a", "b", rate="100 Gbit/s", streams=8, stream_window="1 MiB")
    assert profile.links[0].rate == pytest.approx(80 * 2**20)
    first = profile.sites[0].model_copy(update={"uplink": profile.links[0].bandwidth.__class__(1e6)})
    held = profile.model_copy(update={"sites": (first, profile.sites[1])})
    assert {hop.rate for hop in ring_route(held, sums=True).hops} == {1e6}


def test_an_uplink_is_shared_by_all_that_leaves_a_site() -> None:
    # Both replicas of a may meet peers elsewhere, so that each has half of the uplink of a, 1 Gbit/s of it.
    profile = sites("a", "b", "c", rate="100 Gbit/s", trip="1 ms")
    narrow = profile.links[0].bandwidth.__class__(125e6)
    first = profile.sites[0].model_copy(update={"uplink": narrow, "replicas": 2})
    met = pair_route(profile.model_copy(update={"sites": (first, *profile.sites[1:])}))
    assert met.seconds(1e9) == pytest.approx(2 * 1e9 / 125e6 + 0.0005)
    # Of three sites in a path the middle one sends activations on and their gradients back.
    for place, rate in ((0, 125e6), (1, 62.5e6)):
        order = chain_order(profile)
        held = [
            one.model_copy(update={"uplink": narrow}) if one.name == order[place] else one
            for one in profile.sites
        ]
        about = profile.model_copy(update={"sites": tuple(held)})
        rates = {chain_rate(about, order, *edge) for edge in ((order[0], order[1]), (order[1], order[2]))}
        assert min(rates) == rate


def test_clocks_instead_of_barriers_leave_nobody_waiting() -> None:
    # A-EDiT (arXiv:2412.07210): a site twice as fast does twice the steps; EDiT waits for the slow one.
    profile = sites("a", "b", rate="1000 Gbit/s", trip="1 ms")
    both = {
        name: price_way(way(name), trained(profile, seconds={"a": 1.0, "b": 2.0}))
        for name in ("edit", "a-edit")
    }
    assert both["edit"].compute == 2.0
    assert both["a-edit"].compute == pytest.approx(2 / (1 / 1.0 + 1 / 2.0))
    assert both["edit"].utilisation == pytest.approx(0.75, abs=0.01)
    assert both["a-edit"].utilisation == pytest.approx(1.0, abs=0.01)
    # Of 3 sequences in 1 s and 1 in 2 s all four take as long as 4 / (3 / 1 + 1 / 2) s.
    shared = trained(profile, seconds={"a": 1.0, "b": 2.0}, batches={"a": 3, "b": 1})
    assert price_way(way("a-edit"), shared).compute == pytest.approx(4 / 3.5)


@every("name", SYNCS)
def test_more_bandwidth_never_costs_time(name: str) -> None:
    steps = [price_way(way(name, delay=1), trained(sites("a", "b", "c", rate=f"{rate} Gbit/s"))).step
             for rate in (0.1, 1, 10, 100, 1000)]  # fmt: skip
    assert steps == sorted(steps, reverse=True)
    assert 0 < price_way(way(name), trained(sites("a", "b"))).utilisation <= 1 + 1e-12


@every(("kept", "copies"), [("error-feedback", 1), ("econtrol", 2), ("dgc", 2)])
def test_what_is_not_sent_is_kept_read_and_written(kept: str, copies: int) -> None:
    # arXiv:2311.05645: d = eta e + g - h, then h += C(d) and e += g - h - C(d): two buffers of the model's
    # size. arXiv:1712.01887: a momentum and its sum. By hand, 8 accelerators of 1e12 byte/s: each buffer is
    # read and written once, 8 bytes a parameter.
    about = trained(sites("a", "b"), memory_rate=1e12)
    lost, found = (price_way(way("diloco", 100, text), about) for text in ("int4", f"int4+{kept}"))
    each = 8030261248 / 8
    assert found.device_bytes - lost.device_bytes == copies * 4 * each
    assert found.exchanges[0] - lost.exchanges[0] == pytest.approx(copies * 8 * each / 1e12)
    assert found.mean == pytest.approx(lost.mean, rel=1e-3)


def test_top_k_keeps_its_error_unless_another_way_is_asked_for() -> None:
    plain, named = read_compression("topk:1%"), read_compression("topk:1%+error-feedback")
    assert plain.feedback is named.feedback
    assert (plain.text, named.text) == ("topk:1%", "topk:1%+error-feedback")
    with pytest.raises(InputError, match="all is sent"):
        read_compression("none+econtrol")
    with pytest.raises(InputError, match="econtrol"):
        read_compression("int8+econtroll")
