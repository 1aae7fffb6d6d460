"""Messages inside a layer: volumes and seconds by hand, and what recompute repeats of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from planner.cost.case import case_of
from planner.cost.layer.adapter_messages import adapter_exchange
from planner.cost.layer.block_cost import layer_cost, layer_detail, priced_layer
from planner.cost.layer.communication import (
    BlockExchanges,
    Exchange,
    beside_message_seconds,
    handled_bytes,
    routed_seconds,
)
from planner.cost.layer.expert_host import expert_floor_seconds
from planner.cost.layer.operators import Pricer, stitched_time
from planner.cost.traffic.messages import each_message_seconds
from planner.formulas.collectives import ring_seconds
from planner.formulas.gemm import quantisation_seconds
from planner.inputs.model import ModelSpec
from planner.runtimes.traits import Traits
from planner.techniques.recompute import RECOMPUTES
from planner.techniques.recompute.family import read_choice
from tests.cases import every
from tests.unit.cost_jobs import GQA, MODELS, faster, job, model, plan_of, runtime

SEQ, HIDDEN = 2048, 2048
ROUTED = model(
    "routed", {"a": {"mixer": GQA, "ffn": {"kind": "moe", "experts": 8, "topk": 2, "inner": 2048}}}, "4 a"
)


UNHANDLED: dict[str, Any] = {"dispatcher": "fused", "ep_traffic": 0.0}
"""Traits of messages to experts that no kernel sorts or packs."""


QUIET: dict[str, Any] = {"expert_host_seconds": 0.0, "expert_layer_host_seconds": 0.0}
"""Traits of a host that takes no time."""


def pricer(model: ModelSpec, traits: dict[str, Any] | None = None, **fields: Any) -> Pricer:
    work = job(model, fields.pop("gpus", 8), imbalance=fields.pop("imbalance", 1.0))
    plan = plan_of(work, **fields)
    return Pricer(case_of(plan, work, runtime(**(traits or {}))), plan)


def exchanges(model: ModelSpec = MODELS["dense"], **fields: Any) -> BlockExchanges:
    return priced_layer(pricer(model, **fields), "a").exchanges


@every(("sequence_parallel", "backward"), [(False, 4), (True, 6)])
def test_tensor_parallel_volume_of_a_layer(sequence_parallel: bool, backward: int) -> None:
    """Two pairs of products: four ring passes of 2 T h forward; six backward where inputs stay sharded."""
    sent = exchanges(tp=4, sequence_parallel=sequence_parallel).tp
    once = 3 / 4 * 2 * SEQ * HIDDEN
    assert (sent.forward_sent, sent.backward_sent) == (4 * once, backward * once)


@every(("precision", "gathered"), [("bf16", 2), ("fp8", 1)])
def test_inputs_cast_before_they_are_gathered_travel_in_8_bit(precision: str, gathered: int) -> None:
    """Forward two gathers and two reduce-scatters; backward three gathers. Sums stay in 16 bit."""
    work = job(MODELS["dense"], precision=precision)
    plan = plan_of(work, tp=4, sequence_parallel=True)
    low = Pricer(case_of(plan, work, runtime()), plan)
    sent = priced_layer(low, "a").exchanges.tp
    once = 3 / 4 * SEQ * HIDDEN
    assert (sent.forward_sent, sent.backward_sent) == (
        (2 * gathered + 2 * 2) * once,
        (4 * gathered + 2 * 2) * once,
    )


def overlapped(**fields: Any) -> tuple[Pricer, BlockExchanges]:
    """Return the messages of a layer on four ranks, a quarter of which nothing hides, and their pricer."""
    work = job(MODELS["dense"])
    plan = plan_of(work, tp=4, sequence_parallel=True)
    found = Pricer(case_of(plan, work, runtime(tp_exposed=0.25, **fields)), plan)
    return found, priced_layer(found, "a").exchanges


def test_a_long_product_hides_all_but_the_stated_share_and_a_short_one_no_more_than_its_time() -> None:
    """Ten ring passes of a layer: a quarter shows where links are fast; all but the products where slow."""
    fast, quick = overlapped(tp_bandwidth_share=10.0)
    slow, late = overlapped(tp_bandwidth_share=1e-6)
    whole = ring_seconds(2.0 * SEQ * HIDDEN, 4, 1.0, fast.case.tensor_tiers)
    assert (quick.tp.forward, quick.tp.backward) == pytest.approx((whole, 1.5 * whole))
    named = {op.name: op for op in priced_layer(slow, "a").operators}
    pairs = [named[name] for name in ("qkv", "attention_out", "mlp_in", "mlp_out")]
    once = ring_seconds(2.0 * SEQ * HIDDEN, 4, 1.0, slow.case.tensor_tiers)
    assert late.tp.forward == pytest.approx(4 * once - sum(op.forward for op in pairs))
    beside = sum(op.backward for op in pairs) - sum(op.weight_gradient for op in (pairs[1], pairs[3]))
    assert late.tp.backward == pytest.approx(6 * once - beside)


def test_a_frozen_base_gathers_no_input_again() -> None:
    work = job(MODELS["dense"], method="lora")
    plan = plan_of(work, tp=4, sequence_parallel=True)
    for share in (0.25, 1.0):
        price = Pricer(case_of(plan, work, runtime(tp_exposed=share)), plan)
        layer = priced_layer(price, "a")
        sent, beside = layer.exchanges.tp, adapter_exchange(price, list(layer.operators))
        assert sent.forward_sent - beside.forward_sent == 4 * 3 / 4 * 2 * SEQ * HIDDEN
        assert sent.backward_sent - beside.backward_sent == 4 * 3 / 4 * 2 * SEQ * HIDDEN


@every(("kind", "alone"), [("dense", 0), ("experts", 1)])
def test_recompute_reaches_only_norms_that_are_not_part_of_a_product(kind: str, alone: int) -> None:
    """Of two norms of a layer those before attention and a dense feed-forward are; 2 T h bytes each."""

    def freed(fused: bool) -> float:
        work = job(MODELS[kind])
        found = Pricer(
            case_of(plan_of(work), work, runtime(norms="in-product" if fused else "apart")), plan_of(work)
        )
        layer = priced_layer(found, "a")
        none, again = (read_choice(dict(RECOMPUTES), name) for name in ("none", "selective:norm"))
        return float(layer_cost(layer, none, found).held - layer_cost(layer, again, found).held)

    assert (freed(False), freed(True)) == (2 * 2 * SEQ * HIDDEN, alone * 2 * SEQ * HIDDEN)


def test_products_beside_messages_run_on_the_multiprocessors_that_are_left() -> None:
    """16 of H100's 132: forward after row-split products, backward in both of column-split ones."""
    alone, _ = overlapped()
    beside, _ = overlapped(message_multiprocessors=16.0)
    before, after = ({op.name: op for op in priced_layer(found, "a").operators} for found in (alone, beside))
    slower = 132 / (132 - 16)
    for name in ("attention_out", "mlp_out"):
        assert after[name].forward == pytest.approx(before[name].forward * slower)
        assert after[name].backward == before[name].backward
    for name in ("qkv", "mlp_in"):
        assert after[name].forward == before[name].forward
        assert after[name].backward == pytest.approx(before[name].backward * slower)


def test_scales_by_rows_cast_thrice_and_nothing_in_16_bit() -> None:
    def linears(scales: str, precision: str) -> float:
        work = job(MODELS["dense"], precision=precision)
        plan = plan_of(work)
        layer = priced_layer(Pricer(case_of(plan, work, runtime(float8_scales=scales)), plan), "a")
        return sum(op.forward for op in layer.operators if np.any(op.params) and op.module != "norm")

    def casts() -> float:
        """Inputs of the four products of a layer, 2,048 tokens, at the curve's bytes and rate."""
        work = job(MODELS["dense"], precision="fp8")
        plan = plan_of(work)
        case = case_of(plan, work, runtime())
        curve = case.kernels.gemm["fp8"]
        rows = float(plan.micro_batch) * 2048.0 / float(plan.tp)
        widths = (2048.0, 2048.0, 2048.0, 8192.0)
        return sum(float(quantisation_seconds(rows * width, curve)) for width in widths) / case.derate

    once, thrice, none = linears("tensor", "fp8"), linears("rows", "fp8"), casts()
    assert thrice - once == pytest.approx(2 * none)
    assert linears("rows", "bf16") == linears("tensor", "bf16")


def test_one_rank_of_anything_sends_nothing() -> None:
    for exchange in vars(
        priced_layer(pricer(MODELS["experts"], UNHANDLED | {"all_to_all_traffic": 0.0}), "a").exchanges
    ).values():
        assert (exchange.forward, exchange.backward, exchange.forward_sent, exchange.backward_sent) == (
            0,
            0,
            0,
            0,
        )


def test_routed_layers_have_one_tensor_parallel_pair() -> None:
    """Attention only; a shared expert is a second pair."""
    alone = exchanges(ROUTED, tp=4).tp.forward_sent
    assert exchanges(MODELS["experts"], tp=4).tp.forward_sent == 2 * alone


@every("ep", [2, 4, 8])
def test_routed_tokens_go_out_and_come_back(ep: int) -> None:
    """Two copies of each token's 16-bit vector, all but those that stay; out and back (arXiv:2101.03961)."""
    sent = exchanges(ROUTED, ep=ep).ep
    assert sent.forward_sent == sent.backward_sent == 2 * 2 * (ep - 1) / ep * 2 * SEQ * HIDDEN


def test_tensor_parallel_experts_gather_their_tokens() -> None:
    """Half of the tokens are on each of two ranks that share an expert: gathered whole, and reduced back."""
    sent = exchanges(ROUTED, tp=2, etp=2, sequence_parallel=True).ep
    tokens = SEQ / 2 * 2
    assert sent.forward_sent == 2 * 1 / 2 * (2 * tokens * HIDDEN * 2)


def test_imbalance_takes_time_and_not_bytes() -> None:
    even, uneven = exchanges(ROUTED, ep=8).ep, exchanges(ROUTED, ep=8, imbalance=2.0).ep
    assert uneven.forward > 1.5 * even.forward
    assert uneven.forward_sent == even.forward_sent


def test_a_message_in_parts_is_gathered_on_arrival() -> None:
    """arXiv:2104.04473, sec. 4.1: each of t ranks sends 1/t of it, and they gather it over the fast links."""
    price = pricer(
        MODELS["dense"], {"pipeline_code": "scattered", "tp_bandwidth_share": 0.5}, gpus=16, tp=8, pp=2
    )
    link, network = price.case.tiers
    whole = 2 * SEQ * HIDDEN
    sent = network.latency + whole / 8 / network.bandwidth
    gathered = 7 * link.latency + 7 / 8 * whole / (0.5 * link.bandwidth)
    assert each_message_seconds(price.case, price.plan, SEQ, network) == pytest.approx(sent + gathered)
    assert beside_message_seconds(price.case, price.plan, SEQ) == pytest.approx(gathered)


def test_messages_go_whole_or_as_sequence_parallelism_holds_them() -> None:
    whole = pricer(MODELS["dense"], gpus=16, tp=8, pp=2)
    parts = pricer(
        MODELS["dense"], {"pipeline_code": "scattered"}, gpus=16, tp=8, pp=2, sequence_parallel=True
    )
    network = whole.case.tiers[1]
    for price, nbytes in ((whole, 2 * SEQ * HIDDEN), (parts, 2 * SEQ * HIDDEN / 8)):
        expected = network.latency + nbytes / network.bandwidth
        assert each_message_seconds(price.case, price.plan, SEQ, network) == pytest.approx(expected)


def test_routed_tokens_by_hand_in_a_node() -> None:
    price = pricer(ROUTED, {"ep_exposed": 1.0, **UNHANDLED}, ep=8)
    link = price.case.tiers[0]
    expected = 2 * (2 * 7 / 8 * 2 * SEQ * HIDDEN / link.bandwidth + 7 * link.latency)
    assert priced_layer(price, "a").exchanges.ep.forward == pytest.approx(expected)


def test_a_ring_hides_behind_attention_and_a_gather_does_not() -> None:
    traits = {"cp_exposed": 0.0}
    ring = exchanges(traits=traits, cp=2).cp
    gather = exchanges(traits=traits, cp=2, cp_method="all-gather").cp
    assert ring.forward < gather.forward
    assert ring.forward_sent == gather.forward_sent == 1 / 2 * 2 * SEQ * 2 * 4 * 128


@every(("method", "cp", "waits"), [("lightseq", 8, 5), ("lightseq", 1, 0), ("ring", 8, 0)])
def test_a_code_that_waits_for_the_device_pays_its_host_in_each_step(
    method: str, cp: int, waits: int
) -> None:
    """LightSeq synchronises before each of its P / 2 + 1 steps of a pass."""

    def messages(host: float) -> Exchange:
        return exchanges(traits={"message_host_seconds": host}, cp=cp, cp_method=method).cp

    slow, fast = messages(1e-3), messages(0.0)
    assert slow.forward - fast.forward == pytest.approx(waits * 1e-3)
    assert slow.backward - fast.backward == pytest.approx(waits * 1e-3)


@every(
    ("one_by_one", "cp", "times"),
    [
        (False, 2, 1.25),
        (False, 8, 1.25),
        (True, 1, 1.0),
        (True, 2, 1.25),
        (True, 4, 1.375),
        (True, 8, 1.4375),
    ],
)
def test_attention_is_slower_under_context_parallelism_by_the_trait(
    one_by_one: bool, cp: int, times: float
) -> None:
    """Merged one by one, steps on the keys of others take 1.5 times as long: 1 of 2, 3 of 4, 7 of 8."""

    def forward(slower: float) -> float:
        traits = {"cp_slowdown": slower, "ring_attention": "torch" if one_by_one else "transformer-engine"}
        operators = priced_layer(pricer(MODELS["dense"], traits, cp=cp), "a").operators
        return next(float(operator.forward) for operator in operators if operator.module == "core_attn")

    assert forward(1.25) == pytest.approx(times * forward(1.0))


@every(
    ("tokens", "visible", "times"),
    [(2048, 4096, 1.2), (4096, 4096, 1.2), (16384, 65536, 1.05), (16384, 4096, 1.2)],
)
def test_long_parts_lose_less(tokens: float, visible: float, times: float) -> None:
    """Merges and the edges of calls grow with tokens, work with tokens times the keys that each sees."""
    assert stitched_time(Traits(), 4.0, tokens, visible) == pytest.approx(times)


def test_logits_that_are_not_divided_are_gathered() -> None:
    def sent(divided: bool) -> float:
        price = pricer(MODELS["dense"], {"vocab_parallel_loss": divided}, tp=4)
        return float(priced_layer(price, "head").exchanges.tp.forward_sent)

    assert sent(False) - sent(True) == 3 / 4 * 2 * SEQ * 32000


@every(("recompute", "passes"), [("none", 8), ("full", 12), ("selective", 8)])
def test_full_recompute_repeats_the_messages_of_a_forward_pass(recompute: str, passes: int) -> None:
    price = pricer(MODELS["dense"], tp=4, recompute=recompute)
    detail = layer_detail(priced_layer(price, "a"), price.case.recompute, price)
    assert detail.tp_sent == passes * 3 / 4 * 2 * SEQ * HIDDEN


@every("cp_method", ["ring", "all-gather", "all-to-all"])
def test_ranks_of_a_sequence_share_the_flops_of_its_attention(cp_method: str) -> None:
    """Scores and values of 16 heads of 128, half of the square of 2,048."""
    price = pricer(MODELS["dense"], cp=4, cp_method=cp_method)
    core = next(one for one in priced_layer(price, "a").operators if one.module == "core_attn")
    assert core.flops * 4 == 4 * 16 * 128 * SEQ * SEQ / 2
    assert core.forward < pricer_core_seconds()


def pricer_core_seconds() -> float:
    """Return the time of the whole attention on one rank. [s]"""
    operators = priced_layer(pricer(MODELS["dense"]), "a").operators
    return next(float(one.forward) for one in operators if one.module == "core_attn")


def test_a_chain_of_permutations_moves_its_bytes_through_device_memory() -> None:
    """Out and back, each byte that leaves is moved so often beside what fused kernels do."""
    fused = pricer(ROUTED, {"all_to_all_traffic": 12.0, "dispatcher": "fused"}, ep=8)
    chain = pricer(ROUTED, {"all_to_all_traffic": 12.0, "dispatcher": "all-to-all"}, ep=8)
    seconds = [priced_layer(one, "a").exchanges.ep for one in (fused, chain)]
    moved = 12.0 * seconds[0].forward_sent
    more = seconds[1].forward - seconds[0].forward
    assert more == pytest.approx(moved / chain.case.kernels.memory_bandwidth)


@every("dispatcher", ["fused", "all-to-all"])
def test_tokens_of_experts_that_are_whole_on_each_rank_are_sorted_too(dispatcher: str) -> None:
    """The chain permutes, sorts, sorts back and unpermutes all that is routed; only messages are left out.

    Bytes moved for each that leaves are known of eight ranks, where seven of eight leave.
    """
    traits = {"ep_traffic": 2.0, "all_to_all_traffic": 12.0, "dispatcher": dispatcher}
    alone, pair, eight = (pricer(ROUTED, traits, ep=ep) for ep in (1, 2, 8))
    exchange = priced_layer(alone, "a").exchanges.ep
    routed = 2 * 2.0 * float(alone.local_tokens) * HIDDEN
    assert exchange.forward_sent == 0
    assert exchange.forward == pytest.approx(2 * 14.0 * routed * 7 / 8 / alone.case.kernels.memory_bandwidth)
    moved = [handled_bytes(one, routed, part * routed) for one, part in ((pair, 1 / 2), (eight, 7 / 8))]
    assert moved[0] == moved[1]
    assert handled_bytes(eight, routed, 63 / 64 * routed) == pytest.approx(moved[1] * 9 / 8)


def test_what_overlaps_is_exposed_by_its_own_share() -> None:
    share = {"ep_overlapped": 0.25, **UNHANDLED}
    alone, beside = (
        priced_layer(pricer(ROUTED, {**share, "overlaps_experts": on}, ep=8), "a").exchanges.ep
        for on in (False, True)
    )
    assert beside.forward == pytest.approx(alone.forward / 4)


def test_hosts_that_read_counts_set_a_floor_or_add_up() -> None:
    """Experts of a fixed size have no host time; two micro-batches in turn have it beside the device's."""
    host = {"expert_layer_host_seconds": 1.0, "expert_host_seconds": 1.0 / 4}

    def seconds(**traits: Any) -> float:
        priced = pricer(ROUTED, host | traits, ep=2)
        return float(
            layer_cost(priced_layer(priced, "a"), read_choice(dict(RECOMPUTES), "none"), priced).seconds
        )

    in_turn = {"overlaps_experts": True, "dispatcher": "all-to-all"}
    device = seconds(**in_turn, static_experts=True)
    assert seconds(static_experts=True) < 0.1
    assert device < 0.1
    assert seconds() == pytest.approx(1.0)
    assert seconds(**in_turn) == pytest.approx(1.0 + device)


@every(
    ("traits", "adds"),
    [
        ({"overlaps_experts": False}, False),
        ({"dispatcher": "all-to-all"}, True),
        ({"dispatcher": "fused"}, True),
        ({"dispatcher": "fused", "graphed": "attention"}, False),
        ({"dispatcher": "fused", "graphed": "passes"}, False),
        ({"dispatcher": "all-to-all", "graphed": "router"}, True),
    ],
)
def test_only_the_launches_of_experts_add_to_the_time_of_a_device_that_waits(
    traits: dict[str, Any], adds: bool
) -> None:
    """The floor of a layer is the most of host and device; a wait for counts adds what 4 experts take.

    The floor does not add up: Qwen3 235B on H100 with an overlapped all-to-all runs a layer and micro-batch
    in 13 ms, where device, floor and experts together would take 20.
    """
    floor, experts = 1e-3, 4 * 0.5e-3
    host = {"expert_layer_host_seconds": floor, "expert_host_seconds": experts / 4}
    choice = read_choice(dict(RECOMPUTES), "none")
    slow: dict[str, Any] = {"compute_derate": 1e-3, "ep_traffic": 0.0, "all_to_all_traffic": 0.0}
    slow |= {"overlaps_experts": True} | traits
    told, quiet = (pricer(ROUTED, slow | own, ep=2) for own in (host, QUIET))
    device = float(layer_cost(priced_layer(quiet, "a"), choice, quiet).seconds)
    assert device > 10 * (floor + experts)
    found = float(layer_cost(priced_layer(told, "a"), choice, told).seconds)
    assert found == pytest.approx(device + adds * experts)


@every("precision", ["bf16", "fp8"])
def test_a_layer_with_experts_has_a_floor_in_every_precision(precision: str) -> None:
    """Megatron's own tests of a small mixture of experts in bf16 take 10 ms a layer and micro-batch."""
    work = job(ROUTED, 8, precision=precision)
    plan = plan_of(work)
    priced = Pricer(case_of(plan, work, runtime(expert_layer_host_seconds=1.0)), plan)
    cost = layer_cost(priced_layer(priced, "a"), read_choice(dict(RECOMPUTES), "none"), priced)
    assert float(cost.seconds) == pytest.approx(1.0)


@every(("graphed", "seconds"), [("", 1.0), ("router", 0.5), ("attention", 0.5), ("passes", 0.0)])
def test_graphs_launch_what_the_host_would(graphed: str, seconds: float) -> None:
    """What a graph holds is one launch: all but the experts, or under one of all passes those too."""
    own = {"expert_layer_host_seconds": 1.0, "expert_host_seconds": 0.5, "graphed": graphed}
    assert float(expert_floor_seconds(pricer(ROUTED, own), 1.0)) == seconds


MANY = model(
    "many", {"a": {"mixer": GQA, "ffn": {"kind": "moe", "experts": 256, "topk": 8, "inner": 512}}}, "4 a"
)


@every("cluster", ["dgx-a100-80gb", "dgx-h100", "dgx-b200", "mi300x-8", "gb300-nvl72"])
@every("dispatcher", ["fused", "all-to-all"])
@every("overlaps", [False, True])
def test_experts_on_more_domains_never_cost_less_communication(
    cluster: str, dispatcher: str, overlaps: bool
) -> None:
    work = job(MANY, 256, hardware=cluster)
    traits = {"dispatcher": dispatcher, "overlaps_experts": overlaps, "expert_host_seconds": 5e-4}
    inside = 64 if "nvl72" in cluster else 8
    seconds = []
    for degree in (inside * 2**power for power in range(6) if inside * 2**power <= 256):
        plan = plan_of(work, ep=degree)
        priced = Pricer(case_of(plan, work, runtime(ep_traffic=2.5, **traits)), plan)
        seconds.append(float(priced_layer(priced, "a").exchanges.ep.forward))
    assert len(seconds) > 2
    assert seconds == sorted(seconds)


@every(("links", "waits"), [(1.0, False), (1e-4, True)])
def test_hidden_messages_are_no_longer_than_the_passes_that_hide_them(links: float, waits: bool) -> None:
    """On fast links its share of an all-to-all is waited for, on slow ones all but the passes beside it."""
    work = faster(job(ROUTED, 8), links=links)
    plan = plan_of(work, ep=8)
    beside = {
        "overlaps_experts": True,
        "dispatcher": "all-to-all",
        "ep_traffic": 0.0,
        "all_to_all_traffic": 0.0,
        "all_to_all_overlapped": 0.2,
    }
    priced = Pricer(case_of(plan, work, runtime(**beside, **QUIET)), plan)
    layer = priced_layer(priced, "a")
    alone = 4 * float(routed_seconds(priced.case, plan, 2.0 * priced.local_tokens * HIDDEN, 2, 8))
    passes = sum(float(op.forward + op.backward) for op in layer.operators)
    hidden = alone - 2 * float(layer.exchanges.ep.forward)
    assert hidden == pytest.approx(passes if waits else 0.8 * alone)


def test_head_and_router_run_in_16_bit_whatever_the_others_do() -> None:
    """Megatron-core's output layer and router are no layers of Transformer Engine."""

    def seconds(precision: str, name: str) -> float:
        work = job(ROUTED, 8, precision=precision)
        plan = plan_of(work)
        ops = {
            op.name: op
            for piece in ("a", "head")
            for op in priced_layer(Pricer(case_of(plan, work, runtime()), plan), piece).operators
        }
        return float(ops[name].forward)

    for name in ("head", "router"):
        assert seconds("fp8", name) == seconds("bf16", name)
    assert seconds("fp8", "attention_out") != seconds("bf16", "attention_out")


def test_a_head_may_run_in_low_bits_too() -> None:
    """Megatron-core's ``fp8_output_proj`` quantises the output layer, and the router stays."""

    def seconds(precision: str, low: str, name: str) -> float:
        work = job(ROUTED, 8, "gb200-nvl72", precision=precision)
        plan = plan_of(work)
        price = Pricer(case_of(plan, work, runtime(low_bit_head=low)), plan)
        piece = "head" if name == "head" else "a"
        return next(float(op.forward) for op in priced_layer(price, piece).operators if op.name == name)

    assert seconds("mxfp8", "mxfp8", "head") < 0.8 * seconds("mxfp8", "", "head")
    assert seconds("mxfp8", "mxfp8", "router") == seconds("mxfp8", "", "router")
    assert seconds("fp8", "mxfp8", "head") == seconds("fp8", "", "head")


def test_lora_adapts_what_the_workload_says() -> None:
    """Rank 8 beside queries, keys and values alone: (2048 + 3072) times 8 weights."""
    work = job(MODELS["dense"], 8, method="lora", lora_rank=8, lora_targets=("qkv",))
    plan = plan_of(work)
    layer = priced_layer(Pricer(case_of(plan, work, runtime()), plan), "a")
    assert {op.name: op.trained for op in layer.operators if op.trained} == {"qkv": (2048 + 3072) * 8}
