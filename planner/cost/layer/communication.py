"""Collectives inside a block: their time, and the bytes that one rank sends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from planner import numeric
from planner.cost.case import Case
from planner.cost.layer.adapter_messages import adapter_exchange, gathers_in_the_open
from planner.cost.layer.block_parts import parts_exchange
from planner.cost.layer.context_exchange import context_exchange
from planner.cost.layer.dispatched import runs_beside_messages
from planner.cost.layer.exchange import ACTIVATION_BYTES, NO_EXCHANGE, Exchange
from planner.cost.layer.expert_host import host_floor_and_idle, local_experts
from planner.cost.layer.operators import SPLIT_PAIRS, Operator, Pricer
from planner.cost.layer.sparse_attention import index_exchange
from planner.cost.layer.state_passing import state_exchange
from planner.dataclasses import dataclass
from planner.formulas.collectives import ring_seconds, ring_sent_bytes, switch_pass_seconds
from planner.formulas.overlap import exposed_seconds
from planner.formulas.shortcut import shortcut_window
from planner.formulas.zero_experts import peak_picks
from planner.inputs.model import Block, Experts
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num, ceil, doublings, maximum, where
from planner.plan import Plan
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.recompute.family import RecomputeChoice


def gathered_share(case: Case) -> float:
    """Bytes of a sequence-parallel gather over those of 16 bit. [-]"""
    if not (case.tensor_library.low_bit_gathers and case.sequence_parallel) or case.rowwise:
        return 1.0
    return case.kernels.gemm[case.precision.linear].operand_bytes / ACTIVATION_BYTES


def tensor_exposed(case: Case, tp: Num) -> Num:
    """Return which share of tensor-parallel messages nothing hides: all, where ranks are not joined. [-]"""
    share, joined = case.traits.tensor.exposed, case.pool.joins(tp)
    return share if share >= 1 or numeric.all(joined) else where(joined, share, 1.0)


def tensor_exchange(pricer: Pricer, sublayers: int, gathered: float = 1.0, kept_whole: Num = 0.0) -> Exchange:
    """Price the tensor-parallel collectives of ``sublayers`` pairs of column- and row-split products.

    With sequence parallelism each pair gathers its input and reduce-scatters its result, and both again
    backward, where the input is gathered once more for a weight gradient if it was kept sharded. Without,
    one all-reduce each way, which is two ring passes (arXiv:2205.05198, sec. 4.2.2). ``gathered`` is what a
    gather moves over 16 bit, ``kept_whole`` how many pairs keep their gathered input.
    """
    case, plan = pricer.case, pricer.plan
    if isinstance(plan.tp, float) and plan.tp == 1.0:
        return NO_EXCHANGE
    nbytes = ACTIVATION_BYTES * pricer.tokens * case.model.hidden
    switched = case.traits.tensor.switch_reductions and not case.sequence_parallel
    one_pass = switch_pass_seconds if switched else ring_seconds
    once = one_pass(nbytes, plan.tp, 1.0, case.tensor_tiers) * tensor_exposed(case, plan.tp)
    if case.traits.tensor.hop_seconds:
        once = once + case.traits.tensor.hop_seconds * doublings(case.fast_tier.spread(1.0, plan.tp).domains)
    sent = ring_sent_bytes(nbytes, plan.tp)
    forward = (1.0 + gathered) * sublayers
    again = case.sequence_parallel and case.tensor_library.regathers and case.method.trains_base
    backward = forward + gathered * (sublayers - kept_whole) * again
    return Exchange(forward * once, backward * once, forward * sent, backward * sent)


def hidden_exchange(pricer: Pricer, operators: list[Operator], sublayers: int) -> Exchange:
    """Price the collectives of a layer, each of them hidden by the product beside it and by no more.

    Forward a gather is hidden by the product that reads it, a reduce-scatter by the one that makes it;
    backward the gathers of an input and of a gradient by data gradients, the reduce-scatter by the weight
    gradient; those of a shared expert on its own stream by nothing. Layers of other products are priced as
    if something hid every message, however long.

    References
    ----------
    .. [1] NVIDIA, Transformer Engine d0067d0d, ``transformer_engine/pytorch/module/base.py``,
       ``initialize_ub``: which product overlaps with what.
    """
    case, plan = pricer.case, pricer.plan
    if isinstance(plan.tp, float) and plan.tp == 1.0:
        return NO_EXCHANGE
    named = {operator.name: operator for operator in operators}
    pairs = [(named[into], named[out]) for into, out in SPLIT_PAIRS if into in named and out in named]
    beside = [runs_beside_messages(pricer) * (into.module == "shared_experts") for into, _ in pairs]
    plain = tensor_exchange(pricer, sublayers, gathered_share(case), sum(beside))
    kept = not (case.sequence_parallel and case.tensor_library.regathers)
    if case.traits.tensor.exposed >= 1 or kept or len(pairs) < sublayers:
        return plain
    nbytes = ACTIVATION_BYTES * pricer.tokens * case.model.hidden
    reduced = ring_seconds(nbytes, plan.tp, 1.0, case.tensor_tiers)
    gathered = gathered_share(case) * reduced
    forward: Num = 0.0
    backward: Num = 0.0
    for apart, (into, out) in zip(beside, pairs, strict=True):
        share = case.traits.tensor.exposed + (1.0 - case.traits.tensor.exposed) * apart
        if gathers_in_the_open(pricer, into.name):
            forward = forward + reduced
        else:
            forward = forward + exposed_seconds(gathered, into.forward, share)
        forward = forward + exposed_seconds(reduced, out.forward, share)
        backward = backward + exposed_seconds(gathered, out.backward - out.weight_gradient, share)
        again = exposed_seconds(gathered, into.backward - into.weight_gradient, share)
        backward = backward + again * case.method.trains_base * (1.0 - apart)
        backward = backward + exposed_seconds(reduced, into.weight_gradient, share)
    joined = case.pool.joins(plan.tp)
    if not numeric.all(joined):
        forward, backward = (
            where(joined, one, other) for one, other in ((forward, plain.forward), (backward, plain.backward))
        )
    return Exchange(forward, backward, plain.forward_sent, plain.backward_sent)


def edge_exchange(pricer: Pricer, head: bool) -> Exchange:
    """Price the tensor-parallel collectives around the embedding or the head: half of a pair's.

    Logits that do not stay divided by tp are gathered before the loss (``parallel_output`` off).
    """
    case, plan = pricer.case, pricer.plan
    pair = tensor_exchange(pricer, 1)
    half = Exchange(pair.forward / 2, pair.backward / 2, pair.forward_sent / 2, pair.backward_sent / 2)
    if not head:
        return half
    half = half + norm_reductions(pricer, 1)
    if case.traits.loss.vocab_parallel:
        return half + loss_reductions(pricer)
    nbytes = ACTIVATION_BYTES * pricer.tokens * case.model.vocab
    once = ring_seconds(nbytes, plan.tp, 1.0, case.tensor_tiers) * tensor_exposed(case, plan.tp)
    padded = ACTIVATION_BYTES * pricer.tokens * (ceil(case.model.vocab / plan.tp) * plan.tp)
    return half + Exchange(once, 0.0, ring_sent_bytes(padded, plan.tp), 0.0)


LOSS_REDUCTIONS = 3.0
"""All-reduces of one number of each token: largest logit, sum of exponentials, target's logit. [-]"""

LOSS_BYTES = 4.0
"""Bytes of each of these numbers. [byte]"""


def loss_reductions(pricer: Pricer) -> Exchange:
    """Return the bytes of a loss over divided logits, where the runtime tells them; their time is small."""
    if not pricer.case.tensor_library.told_reductions:
        return NO_EXCHANGE
    once = 2 * ring_sent_bytes(LOSS_BYTES * pricer.tokens, pricer.plan.tp)
    return Exchange(forward_sent=LOSS_REDUCTIONS * once)


def norm_reductions(pricer: Pricer, norms: int) -> Exchange:
    """Return the bytes of the gradients of norms of which each tensor rank sees a part of the sequence."""
    case = pricer.case
    if not case.tensor_library.told_reductions or not case.sequence_parallel:
        return NO_EXCHANGE
    once = 2 * ring_sent_bytes(ACTIVATION_BYTES * case.model.norm_params, pricer.plan.tp)
    return Exchange(backward_sent=norms * once)


def _mixer_exchange(pricer: Pricer, block: Block, operators: list[Operator]) -> Exchange:
    """Price what a layer's mixers send between the ranks that share a sequence."""
    sent, states = NO_EXCHANGE, pricer.case.context.states
    if block.recurrent is not None and states is not None:
        sent = state_exchange(pricer, block.recurrent, states)
    elif block.recurrent is not None:
        sent = recurrent_exchange(pricer, block.recurrent)
    if block.attention is None:
        return sent
    core = next(operator for operator in operators if operator.name == "attention")
    return sent + context_exchange(pricer, block.attention, core)


def recurrent_exchange(pricer: Pricer, mixer: RecurrentMixer) -> Exchange:
    """Price the two all-to-alls around a scan: to the whole sequence of some heads, and back.

    Attention beside it may share its sequence in another way.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/ssm/mamba_context_parallel.py`` and
       ``gated_delta_net/common.py``: what the first product wrote goes there, the result comes back.
    """
    case, plan = pricer.case, pricer.plan
    inner = mixer.state_heads * mixer.value_head_dim
    width = sum(one.outputs for one in mixer.products(case.model.hidden) if one.split == "columns") + inner
    nbytes = ACTIVATION_BYTES * pricer.tokens * width / plan.tp
    method = CONTEXT_METHODS["all-to-all"]
    seconds = where(plan.cp > 1, method.seconds(nbytes, plan.cp, plan.tp, case.tiers), 0.0)
    sent = nbytes * method.sent_share(plan.cp)
    return Exchange(seconds, seconds, sent, sent)


def narrow_exchange(pricer: Pricer, block: Block) -> Exchange:
    """Price the all-reduces of a mixer's inner row-split products, of their results and of the gradients."""
    case, tp = pricer.case, pricer.plan.tp
    inner = block.recurrent.products(case.model.hidden)[:-1] if block.recurrent else ()
    width = sum(one.outputs for one in inner if one.split == "rows")
    if not width:
        return NO_EXCHANGE
    nbytes = ACTIVATION_BYTES * pricer.tokens * width
    seconds = 2.0 * ring_seconds(nbytes, tp, 1.0, case.tensor_tiers)
    sent = 2.0 * ring_sent_bytes(nbytes, tp)
    return Exchange(seconds, seconds, sent, sent)


ATTENTION_MODULES: Final = ("qkv", "mla_up_proj", "core_attn", "attn_out")
"""Modules that make up attention."""


def routed_seconds(case: Case, plan: Plan, nbytes: Num, copies: Num, experts: int) -> Num:
    """Seconds of a dispatch or a combine of tokens of ``nbytes``, each to ``copies`` of ``experts``. [s]"""
    formula, sent = case.dispatcher.sent(nbytes, copies, experts, plan.ep, case.traits.experts.neighbours)
    return formula(**sent, ranks=plan.ep, stride=plan.etp, tiers=case.tiers)


def unhidden_seconds(pricer: Pricer, alone: Num, experts: Num, operators: list[Operator]) -> tuple[Num, Num]:
    """Seconds of both messages to and from experts that are waited for, forward and backward. [s]

    Messages that run beside another micro-batch are hidden by the passes of both, half of them by each, and
    by no more than these take on the device or on the host; those beside a shared expert by its products.
    """
    traits = pricer.case.traits.experts
    own = pricer.case.dispatcher.own_kernels
    share = traits.overlapped if own else traits.all_to_all_overlapped
    if traits.overlaps_shared:
        return _beside_shared(alone * traits.exposed, share, operators)
    if not traits.overlaps:
        return 2 * alone * traits.exposed, 2 * alone * traits.exposed
    floor, passes = host_floor_and_idle(pricer, experts)
    for operator in operators:
        passes = passes + operator.forward + operator.backward
    both = exposed_seconds(2 * alone, maximum(passes, floor) / 2, share)
    return both, both


def _beside_shared(alone: Num, share: float, operators: list[Operator]) -> tuple[Num, Num]:
    """Seconds of a dispatch beside a shared expert's first product, and of a combine beside its second. [s]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/moe/shared_experts.py``:
       ``linear_fc1_forward_and_act`` and ``linear_fc2_forward`` on a stream of their own; backward, the
       sequence numbers keep each beside the same message.
    """
    shared = [operator for operator in operators if operator.module == "shared_experts"]
    into, out = shared[:-1], shared[-1:]
    forward, backward = (
        sum(exposed_seconds(alone, sum(getattr(one, way) for one in side), share) for side in (into, out))
        for way in ("forward", "backward")
    )
    return forward, backward


def dense_path_seconds(operators: list[Operator]) -> Num:
    """Forward seconds of a layer's dense path, which messages to experts on a shortcut run beside. [s]

    The next layer's attention and feed-forward are like this one's, whose shared expert is the latter.
    """
    mixed: Num = 0.0
    fed: Num = 0.0
    for operator in operators:
        if operator.module == "shared_experts":
            fed = fed + operator.forward
        elif operator.module in ATTENTION_MODULES:
            mixed = mixed + operator.forward
    return shortcut_window(mixed, fed, fed)


def expert_exchange(pricer: Pricer, ffn: Experts, operators: list[Operator]) -> Exchange:
    """Price dispatch and combine of routed tokens, and the gathers of expert tensor parallelism.

    Nothing hides the latter: they stand between permutation and grouped products, which take no user buffers
    (Megatron-LM d98e8a64, ``core/transformer/moe/token_dispatcher.py``).
    """
    case, plan = pricer.case, pricer.plan
    token = ACTIVATION_BYTES * pricer.local_tokens * ffn.width(case.model.hidden)
    routed = token * ffn.picks
    peak = peak_picks(ffn.topk, ffn.picks, pricer.local_tokens)
    once = routed_seconds(case, plan, token * case.workload.imbalance, peak, ffn.experts)
    whole = routed * plan.etp
    shared = ring_seconds(whole * case.workload.imbalance, plan.etp, 1.0, case.tensor_tiers)
    leaving = ring_sent_bytes(routed, plan.ep)
    handling = handled_bytes(pricer, routed, leaving) * case.workload.imbalance
    handling = handling / case.kernels.memory_bandwidth
    if ffn.shortcut:
        forward = backward = exposed_seconds(2 * once, dense_path_seconds(operators))
    else:
        forward, backward = unhidden_seconds(pricer, once, local_experts(pricer, ffn), operators)
    beside = 2 * (handling + shared)
    sent = 2 * (leaving + ring_sent_bytes(whole, plan.etp))
    return Exchange(forward + beside, backward + beside, sent, sent)


FITTED_LEAVING: Final = 7.0 / 8.0
"""Least share of routed bytes that left their rank in the runs to which the bytes moved for each were fitted:
experts on eight ranks. [-]"""


def handled_bytes(pricer: Pricer, routed: Num, leaving: Num) -> Num:
    """Bytes of device memory that sorting and packing of ``routed`` bytes move, of which some leave. [byte]

    All routed tokens are sorted, however few of them leave. What stays whole on each rank goes through the
    all-to-all's chain, which no fused dispatcher stands in for.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``core/transformer/moe/token_dispatcher.py``,
       ``MoEAlltoAllTokenDispatcher``: ``permute``, ``sort_chunks_by_idxs`` twice and ``unpermute`` run
       whatever the ranks, and ``MoEFlexTokenDispatcher`` asserts several; ``_AllToAll`` of
       ``core/tensor_parallel/mappings.py`` leaves out the messages of one rank.
    """
    traits, plan = pricer.case.traits.experts, pricer.plan
    chain = where(plan.ep * plan.etp > 1, float(pricer.case.dispatcher.permutes), 1.0)
    handled = maximum(leaving, FITTED_LEAVING * routed)
    return handled * (traits.traffic + traits.all_to_all_traffic * chain)


def message_bytes(case: Case, plan: Plan, tokens: Num) -> Num:
    """Bytes of a message between stages that one rank sends: the whole, or its part of it. [byte]"""
    cut = case.sequence_parallel or case.pipeline_code.scatters
    return ACTIVATION_BYTES * (tokens / plan.tp if cut else tokens) * case.model.hidden


def exposed_message_share(case: Case, plan: Plan) -> Num:
    """Share of a message between stages that no compute hides. [-]"""
    traits = case.traits.pipeline
    if traits.plain_exposed <= traits.exposed:
        return traits.exposed
    return where(plan.vpp > 1, traits.exposed, traits.plain_exposed)


def beside_message_seconds(case: Case, plan: Plan, tokens: Num) -> Num:
    """Seconds that a message costs beside its way: the host's, and to gather the parts of what was scattered.

    Without sequence parallelism all tensor-parallel ranks hold the same activations, so that each may send a
    part.

    References
    ----------
    .. [1] D. Narayanan et al., arXiv:2104.04473, 2021, sec. 4.1 (scatter/gather communication).
    """
    host = case.traits.host.message_seconds
    if case.sequence_parallel or not case.pipeline_code.scatters:
        return host
    whole = ACTIVATION_BYTES * tokens * case.model.hidden
    return host + ring_seconds(whole, plan.tp, 1.0, case.tensor_tiers)


@dataclass(frozen=True)
class BlockExchanges:
    """Communication of one layer by the degree that causes it."""

    tp: Exchange
    cp: Exchange
    ep: Exchange


def block_exchanges(pricer: Pricer, block: Block, operators: list[Operator]) -> BlockExchanges:
    """Price all communication inside one layer."""
    if block.parts:
        return BlockExchanges(NO_EXCHANGE, parts_exchange(pricer, block.parts, operators), NO_EXCHANGE)
    ffn = block.ffn
    fed = ffn is not None and (not isinstance(ffn, Experts) or ffn.shared_inner > 0)
    return BlockExchanges(
        tp=hidden_exchange(pricer, operators, len(block.mixers) + fed)
        + adapter_exchange(pricer, operators)
        + norm_reductions(pricer, block.norms)
        + narrow_exchange(pricer, block)
        + index_exchange(pricer, block),
        cp=_mixer_exchange(pricer, block, operators),
        ep=expert_exchange(pricer, block.ffn, operators) if isinstance(block.ffn, Experts) else NO_EXCHANGE,
    )


def context_again(operators: Iterable[Operator], choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Share of a layer's context-parallel messages that are sent again; a scan's with the whole alone. [-]"""
    if not any(operator.module == "core_attn" for operator in operators):
        return float(choice.whole_layer)
    return 1.0 - pricer.kept_attention if choice.whole_layer else float("core_attn" in choice.modules)
