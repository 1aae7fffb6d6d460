"""Gathered attention: every rank collects all keys and values before it computes its queries.

Backward gathers them again and reduces their gradients back to the owners (Llama 3, sec. 3.3.2).
"""

from planner.formulas.collectives import ring_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, any_heads, ring_share


def forward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the keys and values of the whole sequence. [element]"""
    return tokens * kv_width * cp


def backward_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements gathered again and elements reduced. [element]"""
    return 2 * tokens * kv_width * cp


def gathered_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the keys and values of the other ranks, and of gradients for them. [element]

    References
    ----------
    .. [1] NVIDIA, Transformer Engine, ``attention/dot_product_attention/context_parallel.py``,
       ``AttnFuncWithCPAndKVAllGather.backward``: ``dk`` and ``dv`` of the whole sequence before their
       reduce-scatter, beside the gathered keys and values.
    """
    return 2 * tokens * kv_width * (cp - 1)


ENTRY = ContextMethod(
    name="all-gather",
    cite="arXiv:2407.21783",
    overlaps=False,
    legal=any_heads,
    forward_elements=forward_elements,
    backward_elements=backward_elements,
    seconds=ring_seconds,
    sent_share=ring_share,
    gathered_elements=gathered_elements,
    aliases=("allgather",),
)
