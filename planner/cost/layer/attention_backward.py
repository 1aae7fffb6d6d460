"""What the backward of attention needs at once, where feed-forwards in tiles leave it the most of a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.cost.layer.context_parallel import gathered_bytes, legs
from planner.cost.layer.exchange import ACTIVATION_BYTES
from planner.cost.layer.operators import Operator, Pricer
from planner.inputs.model import Attention, Block
from planner.numeric import Num, where

FIRST_NORM: Final = "norm_0"
AHEAD: Final = ("qkv", "core_attn")
"""Operators of a layer up to attention, whose tensors backward still needs there."""

SUM_BYTES: Final = 4.0
"""Bytes of an element of the buffer in which the gradient of queries is summed. [byte]"""


def attention_backward_bytes(pricer: Pricer, block: Block, operators: Sequence[Operator]) -> Num:
    """Bytes in the backward of attention: what lies before it in the layer, and the kernel's own buffers.

    These are the gradients of its result, of queries, keys and values, the sum of the second in fp32, and
    the last two once for each query head where several share one. Send buffers of an all-to-all are there
    too: the host runs ahead, and they are given back when the device has passed them. Nothing is counted
    where feed-forwards are whole, whose inside is more.

    References
    ----------
    .. [1] FlashAttention 2.8, ``csrc/flash_attn/flash_api.cpp``, ``mha_bwd``: ``dq_accum``, ``dk_expanded``,
       ``dv_expanded``.
    .. [2] DeepSpeed edaa7221, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``: a copy of a key/value
       head for each rank where there are more of these.
    """
    traits, mixer = pricer.case.traits, block.mixer
    if traits.kernels.mlp_tiles <= 1.0 or not pricer.case.attention_kernel.counts_buffers:
        return 0.0
    if not isinstance(mixer, Attention):
        return 0.0
    before: Num = 0.0
    for operator in operators:
        if operator.name == FIRST_NORM or operator.module in AHEAD:
            before = before + operator.kept + operator.saved
    case, plan, tokens = pricer.case, pricer.plan, pricer.tokens
    leg = legs(case, plan, tokens, mixer)[0]
    queries, pairs = tokens * leg.q_width, tokens * leg.kv_width
    own = tokens * mixer.kv_heads / plan.tp * (mixer.qk_head_dim + mixer.value_head_dim)
    shared = where(leg.kv_width < 2.0 * leg.q_width, 2.0 * queries, 0.0)
    buffers = 2.0 * queries + pairs + shared + (pairs - own)
    residual = tokens * case.model.hidden
    kernel = ACTIVATION_BYTES * (buffers + residual) + SUM_BYTES * queries
    return before + kernel + gathered_bytes(case, plan, tokens, mixer)
