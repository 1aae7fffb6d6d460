"""What experts' dispatchers leave on a rank, and move there."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.adapters import input_bytes
from planner.cost.layer.operators import Operator, Pricer
from planner.formulas import elementwise as traffic
from planner.formulas.zero_experts import peak_picks
from planner.inputs.model import DenseFfn, Experts
from planner.numeric import Num, maximum, where
from planner.plan import Plan


def bias_traffic(case: Case, plan: Plan) -> traffic.Traffic:
    """Return what the bias of experts moves: with fused kernels more, where these send any token."""
    plain, fused = traffic.EXPERT_BIAS[False], traffic.EXPERT_BIAS[True]
    if not case.dispatcher.fp32_scores:
        return plain
    sends = plan.ep * plan.etp > 1
    forward, backward = (where(sends, *pair) for pair in zip(fused[:2], plain[:2], strict=True))
    few, more = plain.strided or (), fused.strided or ()
    before, after = (where(sends, *pair) for pair in zip(more, few, strict=True))
    return traffic.Traffic(forward, backward, strided=(before, after))


def routed_bytes(pricer: Pricer, ffn: DenseFfn | Experts | None) -> Num:
    """Bytes of what a dispatch and a combine bring a rank, none where no token leaves it. [byte]

    An all-to-all brings a row for each expert of a token both ways. Fused kernels bring a token back as one,
    summed, and out as no more rows than it has experts (HybridEP; DeepEP brings one for each rank).

    References
    ----------
    .. [1] torchtitan b5bcd76c, ``torchtitan/models/common/token_dispatcher.py`` and ``distributed/deepep``:
       results of ``combine``, tokens x width where fused, copies x width where not.
    """
    if not isinstance(ffn, Experts):
        return 0.0
    case, plan = pricer.case, pricer.plan
    picks = peak_picks(ffn.topk, ffn.picks, pricer.local_tokens)
    back = 1.0 if case.dispatcher.sums else ffn.picks
    rows = pricer.local_tokens * (back + picks * case.workload.imbalance)
    return where(plan.ep > 1, 2.0 * rows * ffn.width(case.model.hidden), 0.0)


def leaving_bytes(pricer: Pricer, sent: Num) -> Num:
    """Bytes, of those that a rank sends for experts in a pass, that leave the fast links. [byte]"""
    if not pricer.case.has_experts:
        return 0.0
    ranks = pricer.plan.ep * pricer.plan.etp
    beyond = maximum(ranks - pricer.case.fast_tier.domain, 0.0)
    return sent * beyond / maximum(ranks - 1.0, 1.0)


def latent_products(pricer: Pricer, width: float) -> list[Operator]:
    """Price the products to the width of routed experts and back, whole on every rank; each keeps its input.

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/moe/moe_layer.py``: ``fc1_latent_proj``
       before the dispatch, ``fc2_latent_proj`` after the combine, both ``parallel_mode="duplicated"``.
    """
    hidden, local = float(pricer.case.model.hidden), pricer.local_tokens
    back = input_bytes(pricer.case, ("experts_latent_out",)) * local * width
    return [
        pricer.linear("experts_latent_in", "moe", local, hidden, width),
        pricer.linear("experts_latent_out", "moe", local, width, hidden, saved=back),
    ]


def runs_beside_messages(pricer: Pricer) -> Num:
    """Whether a shared expert's products run on a stream of their own: where tokens leave at all. [-]"""
    return where(pricer.plan.ep > 1, 1.0, 0.0) if pricer.case.traits.experts.overlaps_shared else 0.0


def gathered_input_bytes(pricer: Pricer) -> Num:
    """Bytes that a shared expert on its own stream keeps of its input: gathered, beside the router's. [byte]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/transformer/moe/shared_experts.py``:
       ``pre_forward_comm`` gathers, and ``parallel_mode`` of the product is None.
    """
    case, plan = pricer.case, pricer.plan
    if not (case.sequence_parallel and input_bytes(case, ("shared_experts_in",))):
        return 0.0
    whole = where(plan.tp > 1, 2.0 * pricer.tokens * case.model.hidden, 0.0)
    return whole * runs_beside_messages(pricer)
