"""One layer under a recompute choice: what a micro-batch costs in it, and what it leaves in memory."""

from __future__ import annotations

import numpy as np

from planner import numeric
from planner.cost.layer import communication
from planner.cost.layer.attention_backward import attention_backward_bytes
from planner.cost.layer.block_parts import diffusion_end
from planner.cost.layer.blocks import block_operators, spared_product
from planner.cost.layer.communication import BlockExchanges, block_exchanges, edge_exchange
from planner.cost.layer.dispatched import leaving_bytes, routed_bytes
from planner.cost.layer.encoders import encoder_piece
from planner.cost.layer.ends import embedding_operators, head_operators, prediction_operators
from planner.cost.layer.exchange import NO_EXCHANGE, Exchange
from planner.cost.layer.expert_host import host_floor_and_idle, local_experts
from planner.cost.layer.graphs import layer_graph_bytes
from planner.cost.layer.layer_costs import LayerCost, LayerDetail
from planner.cost.layer.layer_floor import FORWARD_SHARE, floored_passes, layer_floor
from planner.cost.layer.module_inputs import hosted_inputs
from planner.cost.layer.operators import Operator, Pricer, largest, total
from planner.cost.layer.sequence_parts import part_bytes, repeated_in_parts
from planner.cost.stages import ENCODER
from planner.dataclasses import dataclass, replace
from planner.formulas.launches import launched_seconds
from planner.numeric import Num, maximum, where
from planner.runtimes.traits import Traits
from planner.techniques.methods.family import MOVES
from planner.techniques.recompute.family import RecomputeChoice


@dataclass(frozen=True)
class PricedLayer:
    """A layer's operators and messages; ``attending`` are the bytes of attention's backward if counted.

    ``spared`` need not run again; ``routed`` are bytes of others' tokens, ``floor`` the least seconds.
    """

    operators: tuple[Operator, ...]
    exchanges: BlockExchanges
    local_experts: Num = 0.0
    spared: Operator | None = None
    routed: Num = 0.0
    floor: Num = 0.0
    attending: Num = 0.0


def priced_layer(pricer: Pricer, name: str) -> PricedLayer:
    """Price the block called ``name``, or an end, or the encoder whole.

    Of a prediction layer that runs several times each has its share of the one copy of weights.
    """
    extra = pricer.case.model.prediction
    if extra is None or not extra.repeated or name not in ("prediction", extra.block):
        return _priced(pricer, name)
    layer = _priced(pricer, name)
    shared = tuple(
        one.with_values(**{weights: getattr(one, weights) / extra.layers for weights in WEIGHTS})
        for one in layer.operators
    )
    return replace(layer, operators=shared)


def _priced(pricer: Pricer, name: str) -> PricedLayer:
    model = pricer.case.model
    if name in model.blocks:
        block = model.blocks[name]
        operators = block_operators(pricer, block)
        experts = local_experts(pricer, block.ffn)
        spared = spared_product(pricer, block, operators)
        exchanges = block_exchanges(pricer, block, operators)
        routed, floor = routed_bytes(pricer, block.ffn), layer_floor(pricer, block)
        last = routed, floor, attention_backward_bytes(pricer, block, operators)
        return PricedLayer(tuple(operators), exchanges, experts, spared, *last)
    if name == ENCODER and model.encoder is not None:
        return PricedLayer(*encoder_piece(pricer, model.encoder))
    if model.diffusion is not None:
        operators, sent = diffusion_end(pricer, first=name == "embedding")
        return PricedLayer(tuple(operators), BlockExchanges(NO_EXCHANGE, sent, NO_EXCHANGE))
    ends = {
        "embedding": embedding_operators,
        "head": head_operators,
        "tied_head": lambda pricer: head_operators(pricer, tied=True),
        "prediction": prediction_operators,
    }
    exchange = edge_exchange(pricer, name.endswith("head"))
    return PricedLayer(tuple(ends[name](pricer)), BlockExchanges(exchange, NO_EXCHANGE, NO_EXCHANGE))


WEIGHTS = ("params", "stored", "trained")
"""Fields of an operator that count its weights."""


@dataclass(frozen=True)
class Again:
    """What of a layer runs twice under a recompute choice, in seconds, FLOPs, freed bytes and messages."""

    seconds: Num
    flops: Num
    freed: Num
    tp: Num
    cp: Num
    ep: float


def keeps_second_products(choice: RecomputeChoice, traits: Traits) -> bool:
    """Whether every second product's result is kept, and attention's, and all else runs again."""
    return traits.recompute.selective == "second-products" and choice.modules == {"core_attn"}


def _left(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Bytes that a layer keeps which runs again: its input, and attention's result if that does not."""
    kept: Num = 2.0 * pricer.local_tokens * pricer.case.model.hidden
    for operator, share in zip(layer.operators, again_shares(layer, choice, pricer), strict=True):
        if isinstance(share, float):
            kept = kept if share else kept + (operator.kept + operator.saved)
        elif not np.all(share):
            kept = kept + np.equal(share, 0.0) * (operator.kept + operator.saved)
    return kept


def message_bytes_kept(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Bytes of messages' results in a layer that keeps every second product, and these. [byte]

    Of experts all that came from other ranks is kept. Under sequence parallelism the feed-forward's result is
    a partial sum as wide as the model on every rank, and what two reduce-scatters make of it and of
    attention's is kept too; an all-reduce's result is not.

    References
    ----------
    .. [1] torchtitan, ``torchtitan/distributed/activation_checkpoint.py``: operators whose results
       are kept.
    """
    if not keeps_second_products(choice, pricer.case.traits):
        return 0.0
    if not pricer.case.sequence_parallel:
        return layer.routed
    whole = 2.0 * pricer.tokens * pricer.case.model.hidden
    return layer.routed + where(pricer.plan.tp > 1, whole * (1 + 1 / pricer.plan.tp), 0.0)


def again_share(operator: Operator, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Share of an operator that runs again."""
    if choice.whole_layer:
        return 1.0 - pricer.kept_attention if operator.module == "core_attn" else 1.0
    if keeps_second_products(choice, pricer.case.traits):
        return operator.second
    return float(operator.module in choice.modules)


def again_shares(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> list[Num]:
    """Share of each operator of a layer that runs again."""
    if not choice.whole_layer and not choice.modules:
        return [0.0] * len(layer.operators)
    return [again_share(operator, choice, pricer) for operator in layer.operators]


def again(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Again:
    """Return what runs again; with early stop the last product of a whole layer does not."""
    traits = pricer.case.traits
    seconds, flops, freed = 0.0 * pricer.tokens, 0.0 * pricer.tokens, 0.0 * pricer.tokens
    for operator, share in zip(layer.operators, again_shares(layer, choice, pricer), strict=True):
        seconds = seconds + (share + operator.reruns) * operator.forward
        flops = flops + (share + operator.reruns) * operator.flops
        freed = freed + share * operator.saved
    whole, last = choice.whole_layer, layer.spared
    if whole and pricer.case.checkpointing.stops_early and last is not None:
        stops = 1.0 - pricer.kept_attention
        seconds, flops = seconds - stops * last.forward, flops - stops * last.flops
    if choice.parts > 1.0:
        more = repeated_in_parts(layer.operators, choice.parts)
        seconds, flops = seconds + more.seconds, flops + more.flops
    if whole and traits.host.seconds_forward:
        seconds = launched_seconds(seconds, forward_host_seconds(layer, traits), exposed_host(pricer))
    return Again(
        seconds=seconds,
        flops=flops,
        freed=freed,
        tp=messages_again(layer, choice, pricer),
        cp=communication.context_again(layer.operators, choice, pricer),
        ep=float(whole or "moe" in choice.modules),
    )


def messages_again(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Share of a layer's forward tensor-parallel messages that run again. [-]

    Where every second product is kept, so are the results of reduce-scatters, and inputs are gathered again.
    """
    if choice.whole_layer:
        return 1.0 - _spared_share(layer, pricer)
    if keeps_second_products(choice, pricer.case.traits) and pricer.case.sequence_parallel:
        gathered = communication.gathered_share(pricer.case)
        return gathered / (1.0 + gathered)
    return 0.5 * ("mlp" in choice.modules)


def _spared_share(layer: PricedLayer, pricer: Pricer) -> Num:
    """Share of a layer's forward tensor-parallel messages after the product that early stop spares. [-]

    With sequence parallelism that is a reduce-scatter of as many gathers and reduce-scatters as there are
    products of both kinds, without it half of the all-reduces.
    """
    if not pricer.case.checkpointing.stops_early or layer.spared is None:
        return 0.0
    last = 1.0 / (1.0 + communication.gathered_share(pricer.case)) if pricer.case.sequence_parallel else 1.0
    return 0.5 * last * (1.0 - pricer.kept_attention)


LAYER_LAUNCHES = 14.0
"""Kernels of a layer's pass with kept scores: two norms, four products and two batched ones, softmax, its
dropout, a copy, an activation and two residual additions. [-]"""


def forward_host_seconds(layer: PricedLayer, traits: Traits) -> Num:
    """Host time to launch a layer's forward pass, kernels beside the usual ones included. [s]"""
    return traits.host.seconds_forward * (1 + total(layer.operators, "launches") / LAYER_LAUNCHES)


def exposed_host(pricer: Pricer) -> Num:
    """Share of the shorter of the host's and the device's time that nothing hides. [-]"""
    traits = pricer.case.traits.host
    if traits.launch_blocking:
        return 1.0
    return where(pricer.plan.tp > 1, traits.exposed, 0.0) if traits.exposed else 0.0


def _pass_seconds(layer: PricedLayer, pricer: Pricer) -> tuple[Num, Num, Num]:
    """Seconds of forward, input gradient and weight gradient. [s]

    None is shorter than the host takes for it; of the shorter of the two a share comes on top, all of it
    where every launch blocks.
    """
    traits, context, sent = pricer.case.traits, layer.exchanges.cp, layer.exchanges.ep
    host, idle = (time / 3 for time in host_floor_and_idle(pricer, layer.local_experts))
    products = total(layer.operators, "weight_gradient")
    forward = total(layer.operators, "forward") + context.forward + idle
    inputs = total(layer.operators, "backward") - products + context.backward + idle
    weight = maximum(products + idle, host)
    if traits.host.seconds_forward:
        exposed, launch = exposed_host(pricer), forward_host_seconds(layer, traits)
        back = launch / traits.host.seconds_forward * traits.host.seconds_backward
        both = launched_seconds(inputs + weight, back + host - sent.backward, exposed)
        return launched_seconds(forward, launch + host - sent.forward, exposed), both - weight, weight
    inputs = maximum(inputs, host - sent.backward)
    return maximum(forward, host - sent.forward), inputs, weight


def _pass_bytes(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer, freed: Num) -> tuple[Num, Num]:
    """Bytes kept from forward to backward, and those that exist besides while backward runs. [byte]"""
    if choice.parts > 1.0:
        held = _left(layer, choice, pricer)
        return held, part_bytes(layer.operators, choice.parts, pricer) - held
    everything = total(layer.operators, "kept") + total(layer.operators, "saved")
    held = _left(layer, choice, pricer) if choice.whole_layer else everything - freed
    besides = everything - held + largest(layer.operators, "result")
    besides = maximum(besides, layer.attending - held) if numeric.any(layer.attending) else besides
    return held + message_bytes_kept(layer, choice, pricer), besides


def layer_cost(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> LayerCost:
    """Return the cost of a layer to which ``choice`` applies."""
    twice = again(layer, choice, pricer)
    tp, cp, ep = layer.exchanges.tp, layer.exchanges.cp, layer.exchanges.ep
    forward, inputs, weight = _pass_seconds(layer, pricer)
    held, rebuilt = _pass_bytes(layer, choice, pricer, twice.freed)
    context = twice.cp * cp.forward
    comm = _passes(tp, twice.tp) + _passes(ep, twice.ep) + context
    repeated = twice.tp * tp.forward + twice.ep * ep.forward
    experts, others = _by_expert(layer)
    passes = (
        forward + inputs + weight + twice.seconds + comm,
        forward + tp.forward + ep.forward,
        weight,
        twice.seconds + repeated + context,
    )
    if pricer.case.method.forwards:
        return forward_cost(layer, passes[1], pricer)
    if numeric.any(layer.floor):
        passes = floored_passes(passes, layer.floor * (1.0 + FORWARD_SHARE * choice.whole_layer))
    copied, leaves = hosted_inputs(layer.operators, pricer.case.offload.modules, choice.modules)
    return LayerCost(
        *passes,
        held=held,
        rebuilt=rebuilt,
        stored=total(others, "stored"),
        expert_stored=total(experts, "stored"),
        trained=total(others, "trained"),
        expert_trained=total(experts, "trained"),
        product=largest_product(layer, pricer) if needs_product(pricer) else 0.0,
        scores=_kept_scores(layer, choice, pricer),
        graphed=layer_graph_bytes(pricer, layer.operators, lambda op: again_share(op, choice, pricer)),
        copied=copied,
        leaves=leaves,
        routed=leaving_bytes(pricer, ep.forward_sent),
    )


def forward_cost(layer: PricedLayer, forward: Num, pricer: Pricer) -> LayerCost:
    """Return the cost of a layer that runs forward alone, so many times, and whose weights move in between.

    References
    ----------
    .. [1] S. Malladi et al., "MeZO," arXiv:2305.17333, 2023, algorithm 1: weights are moved in place.
    """
    case = pricer.case
    experts, others = _by_expert(layer)
    stored = total(layer.operators, "stored")
    moves = MOVES * 2.0 * stored / case.kernels.memory_bandwidth
    seconds = case.method.forwards * (forward + layer.exchanges.cp.forward) + moves
    return LayerCost(
        seconds=seconds,
        forward=seconds,
        weight_gradient=0.0,
        again=0.0,
        held=0.0 * pricer.tokens,
        rebuilt=largest(layer.operators, "result") + 4.0 * pricer.local_tokens * case.model.hidden,
        stored=total(others, "stored"),
        expert_stored=total(experts, "stored"),
        trained=0.0 * stored,
        expert_trained=0.0 * stored,
        product=largest_product(layer, pricer) if needs_product(pricer) else 0.0,
    )


def _kept_scores(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Bytes of attention's scores that wait for backward; those that are made again do not. [byte]"""
    if not pricer.case.attention_kernel.keeps_scores:
        return 0.0
    scores: Num = 0.0
    for core in (operator for operator in layer.operators if operator.module == "core_attn"):
        scores = scores + core.saved * (1.0 - again_share(core, choice, pricer))
    return scores


def largest_product(layer: PricedLayer, pricer: Pricer) -> Num:
    """Weights of the largest product; halves that are layers of their own are each as large as the last."""
    halves = ("mlp_in", "shared_experts_in") if pricer.case.adapter_library.separate else ()
    return largest([operator for operator in layer.operators if operator.name not in halves], "params")


def needs_product(pricer: Pricer) -> bool:
    """Whether a runtime gathers weights, or fills buckets of gradients, product by product."""
    case = pricer.case
    return bool(case.engine.by_product or case.traits.engine.live_elements or case.retry_seconds)


def outside_seconds(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Seconds of all passes of a layer that come from outside the curves' fitted ranges. [s]"""
    seconds: Num = 0.0
    for operator, share in zip(layer.operators, again_shares(layer, choice, pricer), strict=True):
        passes = 1.0 + share + operator.reruns
        seconds = seconds + passes * operator.outside_forward + operator.outside_backward
    if choice.whole_layer and pricer.case.checkpointing.stops_early and (last := layer.spared) is not None:
        seconds = seconds - (1.0 - pricer.kept_attention) * last.outside_forward
    return seconds


def layer_detail(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> LayerDetail:
    """Return what an estimate tells of a layer to which ``choice`` applies."""
    twice = again(layer, choice, pricer)
    exchanges = layer.exchanges
    experts, others = _by_expert(layer)
    tp, cp, ep = (_passes(kind, share) for kind, share in _shares(exchanges, twice))
    tp_sent, cp_sent, ep_sent = (_sent(kind, share) for kind, share in _shares(exchanges, twice))
    cost = layer_cost(layer, choice, pricer)
    return LayerDetail(
        compute=cost.seconds - tp - cp - ep,
        recompute=twice.seconds,
        tp=tp,
        cp=cp,
        ep=ep,
        tp_sent=tp_sent,
        cp_sent=cp_sent,
        ep_sent=ep_sent,
        flops=total(layer.operators, "flops"),
        recompute_flops=twice.flops,
        params=total(others, "params"),
        expert_params=total(experts, "params"),
        extrapolated=outside_seconds(layer, choice, pricer),
    )


def _by_expert(layer: PricedLayer) -> tuple[list[Operator], list[Operator]]:
    return [op for op in layer.operators if op.expert], [op for op in layer.operators if not op.expert]


def _shares(exchanges: BlockExchanges, twice: Again) -> tuple[tuple[Exchange, Num], ...]:
    return (exchanges.tp, twice.tp), (exchanges.cp, twice.cp), (exchanges.ep, twice.ep)


def _passes(exchange: Exchange, repeated: Num) -> Num:
    return (1 + repeated) * exchange.forward + exchange.backward


def _sent(exchange: Exchange, repeated: Num) -> Num:
    return (1 + repeated) * exchange.forward_sent + exchange.backward_sent
