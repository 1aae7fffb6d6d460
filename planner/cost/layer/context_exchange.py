"""What attention under context parallelism waits for: its messages beside its arithmetic."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.context_parallel import Leg, legs
from planner.cost.layer.exchange import ACTIVATION_BYTES, NO_EXCHANGE, Exchange
from planner.cost.layer.lengths_dealt import is_by_length, shared_documents
from planner.cost.layer.operators import Operator, Pricer
from planner.dataclasses import replace
from planner.formulas.overlap import exposed_seconds
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num, maximum, where


def gradient_share(case: Case, leg: Leg) -> Num:
    """Bytes of a backward of context parallelism over those with gradients as wide as keys and values. [-]

    Of 2 (cp - 1) parts half are gradients: in fp32 and passed on cp times they weigh 2 cp instead of cp - 1.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/tensor/experimental/_context_parallel/_attention.py``,
       ``_templated_ring_attention_backward``.
    """
    method = leg.method
    if not case.ring.fp32_gradients or method.splits_heads or method.kernel:
        return 1.0
    if not method.returns_kv_gradients:
        return 1.0
    return where(leg.ranks > 1, (3.0 * leg.ranks - 1.0) / maximum(2.0 * (leg.ranks - 1.0), 1.0), 1.0)


def context_exchange(pricer: Pricer, mixer: Attention | LatentAttention, attention: Operator) -> Exchange:
    """Price what attention sends between the ranks that share a sequence."""
    case, found = pricer.case, NO_EXCHANGE
    if isinstance(pricer.plan.cp, float) and pricer.plan.cp == 1.0:
        return found
    parts = legs(case, pricer.plan, pricer.tokens, mixer)
    if is_by_length(case):
        return exchange_by_length(pricer, parts, attention)
    for leg in parts:
        found = found + leg_exchange(case, leg, attention)
    return found


def exchange_by_length(pricer: Pricer, parts: tuple[Leg, ...], attention: Operator) -> Exchange:
    """Price the messages of documents each of which goes round its own ranks, beside its own attention.

    Attention for each token grows with its document's length, so that long ones hide their messages, and
    those of documents inside a node go over its links.

    References
    ----------
    .. [1] H. Ge et al., "ByteScale," arXiv:2502.21231, 2025, sec. 5: P2P only inside the ranks of a document.
    """
    case, found = pricer.case, NO_EXCHANGE
    documents = case.workload.packed
    if documents is None:
        return found
    for shared in shared_documents(case, pricer.plan):
        if shared.ranks <= 1.0:
            continue
        tokens = shared.length / shared.ranks
        count = shared.tokens * documents.filled * pricer.tokens / tokens
        share = tokens / pricer.tokens * (shared.length / documents.attended)
        own = attention.with_values(forward=share * attention.forward, backward=share * attention.backward)
        for leg in parts:
            each = leg_exchange(case, replace(leg, ranks=shared.ranks, tokens=tokens), own)
            found = found + Exchange(
                count * each.forward, count * each.backward,
                count * each.forward_sent, count * each.backward_sent,
            )  # fmt: skip
    return found


def leg_exchange(case: Case, leg: Leg, attention: Operator) -> Exchange:
    """Price the messages of one method in both passes."""
    method = leg.method
    exposed = case.context_exposed(method)
    buffers = (method.forward_elements, method.backward_elements)
    window = (attention.forward, attention.backward)
    shares = (1.0, gradient_share(case, leg))
    rows = (0.0, method.backward_statistics * leg.tokens * leg.heads * leg.ranks)
    seconds, sent = [], []
    for elements, row, compute, share in zip(buffers, rows, window, shares, strict=True):
        whole = elements(leg.tokens, leg.q_width, leg.kv_width, leg.ranks) + row
        nbytes = ACTIVATION_BYTES * share * whole
        alone = method.seconds(nbytes, leg.ranks, leg.stride, case.tiers)
        hidden = exposed_seconds(alone, compute, exposed)
        waits = case.traits.host.message_seconds * method.waits(leg.ranks)
        seconds.append((hidden if method.overlaps else alone) + waits)
        sent.append(nbytes * method.sent_share(leg.ranks))
    return Exchange(seconds[0], seconds[1], sent[0], sent[1])
