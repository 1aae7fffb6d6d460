"""Context parallelism: which ranks share what of a sequence, and what each holds of the others."""

from __future__ import annotations

from planner.cost.case import Case
from planner.cost.layer.exchange import ACTIVATION_BYTES
from planner.cost.layer.heads import head_ranks
from planner.dataclasses import dataclass
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num, ceil, maximum, where
from planner.plan import Plan
from planner.techniques.context import ContextMethod


@dataclass(frozen=True)
class Leg:
    """The messages of one method among some of the ranks that share a sequence."""

    method: ContextMethod
    """Whose messages they are."""
    ranks: Num
    stride: Num
    """Members and the distance between them. [-]"""
    tokens: Num
    """Tokens of a member's part of the sequence."""
    heads: Num
    """Query heads of a member. [-]"""
    q_width: Num
    kv_width: Num
    """Elements of queries, and of keys and values together, that a member has of one token."""

    def gathered_bytes(self) -> Num:
        """Bytes that a member holds of the others in the backward of attention. [byte]"""
        gathered = self.method.gathered_elements(self.tokens, self.q_width, self.kv_width, self.ranks)
        return ACTIVATION_BYTES * gathered


def legs(case: Case, plan: Plan, tokens: Num, mixer: Attention | LatentAttention) -> tuple[Leg, ...]:
    """Return the messages of one attention: those that share heads, then those that share the sequence."""
    heads, kv_heads = mixer.heads / plan.tp, maximum(mixer.kv_heads / plan.tp, 1.0)
    shares = head_ranks(case, plan, mixer)
    if case.context.shares_heads:
        heads, kv_heads = (shares * ceil(number / shares) for number in (heads, kv_heads))
    kv_width = kv_heads * (mixer.qk_head_dim + mixer.value_head_dim)
    if isinstance(mixer, LatentAttention) and mixer.indexer is not None:
        kv_width = float(mixer.core_widths[0] + mixer.indexer.head_dim)
    q_width = heads * (mixer.qk_head_dim + mixer.value_head_dim) / 2
    inner = case.context.heads_by
    if inner is None:
        return (Leg(case.context, plan.cp, plan.tp, tokens, heads, q_width, kv_width),)
    near = Leg(inner, shares, plan.tp, tokens, heads, q_width, kv_width)
    parts = (tokens * shares, heads / shares, q_width / shares, kv_width / shares)
    return near, Leg(case.context, plan.cp / shares, plan.tp * shares, *parts)


def gathered_bytes(case: Case, plan: Plan, tokens: Num, mixer: Attention | LatentAttention) -> Num:
    """Bytes that a rank holds of others' keys, values and gradients in the backward of attention. [byte]"""
    held: Num = 0.0
    for leg in legs(case, plan, tokens, mixer):
        held = held + leg.gathered_bytes()
    return where(plan.cp > 1, held, 0.0)


def kept_attention(case: Case, plan: Plan) -> Num:
    """One where checkpoints of the context method keep attention's output from recompute, else zero. [-]"""
    own = case.context.keeps_attention and not case.checkpointing.repeats_methods
    return where(plan.cp > 1, 1.0, 0.0) if own and case.recompute.whole_layer else 0.0
