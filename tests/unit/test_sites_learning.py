"""What ways to keep sites together cost in learning, and what partial training saves: printed figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from planner.cost.sites.price import Trained, Way, price_way
from planner.formulas.learning_laws import (
    critical_batch_sequences,
    equal_loss_compute,
    inner_steps_perplexity,
    large_batch_tokens,
    power_law,
)
from planner.formulas.low_communication import boundary_bytes, exchange_period
from planner.formulas.partial_training import seeded_step_bytes, visited_share
from planner.inputs.load import load_model
from planner.search.sites.layer_rates import BITS, UNIFORM, bits_by_group, layer_bits, least_bytes
from planner.techniques.compress import COMPRESSIONS, read_compression
from planner.techniques.sync import SYNCS
from planner.techniques.sync.family import LOSS_LAWS, best_batch_tokens, loss_ratio
from planner.techniques.sync.spes import routed_params
from tests.cases import every
from tests.unit.test_sites_price import sites, trained, way


@every(("replicas", "worse", "worth"), [(2, 0.1, 1.5), (4, 0.5, 5.4), (8, 1.5, 14.5)])
def test_replicas_cost_at_1b_what_the_laws_say(replicas: int, worse: float, worth: float) -> None:
    # arXiv:2503.09799, table 2; worth as a share of the larger model's size, by data parallelism's exponent.
    ratio = loss_ratio(1e9, replicas)
    assert 100 * (ratio - 1) == pytest.approx(worse, abs=0.07)
    size = float(equal_loss_compute(ratio, LOSS_LAWS[0][1])) ** 0.5
    assert 100 * (1 - 1 / size) == pytest.approx(worth, abs=0.2)


@every(("replicas", "printed"), [(0, 2.224), (1, 2.219), (2, 2.220), (4, 2.230)])
def test_the_laws_foretell_4b(replicas: int, printed: float) -> None:
    # arXiv:2503.09799, table 5: losses measured at 4 B, beyond what the laws were fitted to.
    assert float(power_law(4e9, *LOSS_LAWS[replicas])) == pytest.approx(printed, rel=0.0125)


def test_more_replicas_never_cost_less_and_large_models_do_not_overtake() -> None:
    # Single fits say that four replicas overtake data parallelism near 4 B; at 10 B they are 0.29% above.
    for params in (35e6, 1e9, 10e9, 405e9):
        ratios = [loss_ratio(params, count) for count in (2, 4, 8, 16, 64)]
        assert ratios[1:] == sorted(ratios[1:])
    assert loss_ratio(10e9, 4) >= 1.0028
    assert (SYNCS["diloco"].penalty.compute(10e9, 2) or 0.0) < 1.01


def test_the_best_batch_of_diloco_grows_with_size_and_replicas() -> None:
    # arXiv:2503.09799: joint law 14.521 N^0.4695 M^0.3399 beside the single ones, which it follows.
    singles = {1: (27.873, 0.435), 2: (15.749, 0.479), 4: (10.957, 0.510), 8: (38.072, 0.455)}
    for replicas, law in singles.items():
        assert best_batch_tokens(1e9, replicas) == pytest.approx(float(power_law(1e9, *law)), rel=0.15)


@every(("millions", "sequences"), [(85, 752), (151, 985), (1200, 2610)])
def test_the_critical_batch_grows_with_the_root_of_the_size(millions: float, sequences: float) -> None:
    # arXiv:2410.21676: 93.20 N^0.47, N in millions, B in sequences; the three laws meet at 151 M.
    assert float(critical_batch_sequences(millions)) == pytest.approx(sequences, rel=0.002)
    if millions == 151:
        assert float(power_law(3072.0, 22.91, 0.47)) == pytest.approx(999, abs=1.5)
        assert float(power_law(151.0, 621.341, 0.087)) == pytest.approx(961, abs=1)


def test_a_critical_batch_costs_a_fifth_more_tokens() -> None:
    assert (large_batch_tokens(0.0), large_batch_tokens(1.0)) == (1.0, 1.2)


def test_noloco_prints_between_3_and_34_per_cent() -> None:
    # arXiv:2506.10911, table 2: FSDP, DiLoCo and NoLoCo on Reddit and C4.
    fsdp = (25.5, 25.5, 19.6, 16.1, 29.1, 29.1, 18.8, 15.7)
    diloco = (27.6, 29.7, 21.0, 18.0, 34.0, 39.1, 22.6, 17.3)
    noloco = (27.2, 29.1, 20.9, 17.5, 33.1, 37.7, 22.9, 16.6)
    worse = [
        other / exact - 1 for other in (diloco, noloco) for other, exact in zip(other, fsdp, strict=True)
    ]
    text = SYNCS["noloco"].penalty.text
    assert "3% to 34%" in text
    assert 0.03 < min(worse) < max(worse) < 0.345
    assert SYNCS["noloco"].penalty.compute(1e9, 16) is None


def test_what_changes_learning_has_a_source() -> None:
    for sync in SYNCS.values():
        assert sync.exact or sync.penalty.source.startswith("arXiv:")
    assert [name for name, sync in SYNCS.items() if sync.exact] == ["ddp", "stages"]
    assert all(one.penalty for one in COMPRESSIONS.values())


def test_co2_is_thirteen_times_as_fast_as_what_it_hides() -> None:
    # arXiv:2401.16265: 304,736 words/s against 22,810; 48 local steps hide the exchange, 12 do not (0.86).
    exchange = 304_736 / 22_810 - 1  # over a step
    assert exchange_period(48.0, exchange, 48.0) == 48.0
    share = 12.0 / exchange_period(12.0, exchange, 12.0)
    assert 0.86 < share < 1.0


def test_swarm_needs_less_network_the_wider_the_layer() -> None:
    # arXiv:2301.11913: V100 on 500 Mbit/s in 8 bits: GPT-3's layers compute 48 to 82%, BERT's 1.5 to 18%.
    def busy(hidden: float, rate: float) -> float:
        compute = 72 * hidden**2 / rate
        return compute / exchange_period(compute, boundary_bytes(1.0, hidden, 1.0) / 62.5e6, 0.0)

    for rate in (20e12, 45e12, 59e12):  # of the 125e12 of the datasheet
        assert 0.48 < busy(12288.0, rate) < 0.82
        assert 0.015 < busy(768.0, rate) < 0.18
    ratio = [share / (1 - share) for share in (busy(4096.0, 5e13), busy(8192.0, 5e13))]
    assert ratio[1] / ratio[0] == pytest.approx(2.0)


def test_most_of_what_skipped_stages_save_is_the_skipped_work() -> None:
    # arXiv:2502.19913: 55% less time at most; half of the stages are half of the FLOPs.
    assert 0.45 < 0.55 - (1 - visited_share(3.0, 6.0)) + 0.5 < 0.6
    assert 1 - visited_share(4.0, 6.0) == pytest.approx(0.33, abs=0.005)


def test_nodes_that_train_their_own_experts_save_their_states() -> None:
    # SPES: 2 B parameters on 16 nodes, 55 to 35 GB; experts are most of the 2 B, 12 bytes each.
    saved = [12 * experts * (1 - 1 / 16) / 1e9 for experts in (1.6e9, 1.9e9)]
    assert saved[0] < 55 - 35 < saved[1]


def test_a_zeroth_order_step_sends_a_byte_whatever_the_model() -> None:
    # arXiv:2306.10015.
    assert seeded_step_bytes(2.0, 1.0) == 1.0


def brute_force(sizes: np.ndarray, errors: np.ndarray, budget: float) -> float:  # type: ignore[type-arg]
    rows = range(len(sizes))
    return min(
        sum(sizes[row, choice] for row, choice in zip(rows, chosen, strict=True))
        for chosen in product(range(sizes.shape[1]), repeat=len(sizes))
        if sum(errors[row, choice] for row, choice in zip(rows, chosen, strict=True)) <= budget
    )


@every("seed", range(6))
def test_bits_by_layer_are_the_best_of_all(seed: int) -> None:
    # arXiv:2210.17357, sec. 4: the program against all choices one by one.
    draw = np.random.default_rng(seed)
    params, norms = draw.uniform(1, 1000, 5), draw.uniform(0.1, 100, 5)
    bits = np.array(BITS[:5])
    sizes, errors = params[:, None] * bits, norms[:, None] * 2.0**-bits
    budget = float((norms * 2.0**-UNIFORM).sum())
    chosen = least_bytes(sizes, errors, budget)
    found = sum(sizes[row, choice] for row, choice in enumerate(chosen))
    assert sum(errors[row, choice] for row, choice in enumerate(chosen)) <= budget * (1 + 1e-9)
    assert found == pytest.approx(brute_force(sizes, errors, budget))
    assert found <= float(params.sum()) * UNIFORM + 1e-6


def test_bits_by_layer_save_up_to_five_times_where_errors_differ() -> None:
    # arXiv:2210.17357: up to 5x over uniform: where one small layer has all of the error.
    params, norms = np.array([1e3, 1e6, 1e6]), np.array([100.0, 0.01, 0.01])
    bits = np.array((1.0, 2.0, 4.0, 5.0, 8.0))
    sizes, errors = params[:, None] * bits, norms[:, None] * 2.0**-bits
    chosen = least_bytes(sizes, errors, float((norms * 2.0**-5).sum()))
    sent = sum(sizes[row, choice] for row, choice in enumerate(chosen))
    assert 4.5 < params.sum() * 5 / sent <= 5.0


@pytest.mark.parametrize("name", ["llama3-8b", "deepseek-v3", "gpt-oss-120b"])
def test_without_gradients_bits_by_layer_are_no_more_than_uniform(name: str) -> None:
    model = load_model(name)
    assert 3.5 < layer_bits(model) <= UNIFORM
    groups = bits_by_group(model)
    assert sum(groups["layers"].values()) == model.num_layers
    assert set().union(*groups.values()) <= set(BITS)


@every(("steps", "ratio"), [(10, 1.0), (50, 1.0), (1000, 1.029)])
def test_more_inner_steps_cost_perplexity(steps: float, ratio: float) -> None:
    # arXiv:2311.08105, fig. 4: H = 1000 is 2.9% above H = 50.
    assert float(inner_steps_perplexity(steps)) == pytest.approx(ratio)
    assert 1.0 < float(inner_steps_perplexity(200.0)) < 1.029


def moe(replicas: int) -> Trained:
    names = [f"s{number}" for number in range(replicas)]
    return replace(trained(sites(*names)), model=load_model("olmoe-1b-7b"), shards=1.0)


@every("replicas", [2, 4, 16])
def test_spes_frees_what_others_train_and_sends_experts_once(replicas: int) -> None:
    # arXiv:2602.11543: on each node the weights of all experts, gradients and states of its own alone.
    about = moe(replicas)
    routed = routed_params(about.model)
    assert 6e9 < routed < about.model.params
    price = price_way(way("spes", 100), about)
    assert price.device_bytes == pytest.approx(-12.0 * routed * (1 - 1 / replicas))
    whole = price_way(way("local-sgd", 100), about)
    sent = [sum(one.mean.values()) * one.period for one in (price, whole)]
    dense = about.model.params - routed
    assert sent[0] / sent[1] == pytest.approx((dense + routed / 2) / (dense + routed))
    # Up to 33% less is printed, of models with a smaller share of experts than this one's 93%.
    assert 0.33 < 1 - sent[0] / sent[1] < 0.5


def test_skippipe_is_mostly_what_it_skips() -> None:
    # arXiv:2502.19913: at most 55% less time; four of six stages are a third less compute.
    about = replace(trained(sites("a", "b", "c", rate="1 Gbit/s"), 20.0), micro_batches=24, tokens=2.0**20)
    for rate in ("1 Gbit/s", "100 Gbit/s"):
        profile = sites("a", "b", "c", rate=rate)
        full, skipped = (
            price_way(Way(SYNCS[name], 1, read_compression("none")), replace(about, profile=profile)).step
            for name in ("swarm", "skippipe")
        )
        assert 1 - 0.55 < skipped / full < 1
        assert skipped / full == pytest.approx(4 / 6, abs=0.06)
    assert SYNCS["skippipe"].penalty.compute(1e9, 3) is None


def test_a_byte_of_each_replica_and_its_directions_again() -> None:
    # arXiv:2306.10015: one byte of each other machine; all directions are drawn again from their seeds.
    few, many = (price_way(way("one-byte"), replace(moe(count), memory_rate=3e12)) for count in (2, 8))
    for count, price in ((2, few), (8, many)):
        assert price.mean["s0", "s1"] * price.period == pytest.approx(count - 1)
        drawn = 6.0 * count * moe(count).model.params / 3e12
        assert price.compute == pytest.approx(10.0 * 2 / 3 + drawn)
    assert few.device_bytes == -12.0 * moe(2).model.params


def test_what_shares_out_experts_asks_for_some() -> None:
    assert SYNCS["spes"].parts(load_model("llama3-8b"), 2).lacks
    assert not SYNCS["spes"].parts(load_model("mixtral-8x7b"), 2).lacks
