"""Ulysses: an all-to-all turns a part of the sequence with all heads into the whole with some heads."""

import numpy as np

from planner.formulas.collectives import all_to_all_seconds
from planner.numeric import Num
from planner.techniques.context.family import ContextMethod, Mask, all_heads, ring_share, splits_evenly


def legal(cp: Num, heads: Num, kv_heads: Num, head_ranks: Num) -> Mask:
    """Whether every rank gets the same whole number of query and of key/value heads, or a copy of one.

    References
    ----------
    .. [1] DeepSpeed edaa7221, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``,
       ``kv_replication_factor``: each key/value head goes to several ranks where there are fewer than ranks.
    """
    copied = np.equal(np.mod(heads, head_ranks), 0) & np.equal(np.mod(head_ranks, kv_heads), 0)
    either: Mask = splits_evenly(heads, kv_heads, head_ranks) | copied
    return either


def exchanged_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of queries, keys, values and outputs of one rank. [element]"""
    return tokens * (2 * q_width + kv_width)


def gathered_elements(tokens: Num, q_width: Num, kv_width: Num, cp: Num) -> Num:
    """Elements of the send and the receive buffer beside the tensors themselves. [element]"""
    return tokens * (2 * q_width + kv_width) * np.where(cp > 1, 1.0, 0.0)


ENTRY = ContextMethod(
    name="all-to-all",
    cite="arXiv:2309.14509",
    overlaps=False,
    legal=legal,
    forward_elements=exchanged_elements,
    backward_elements=exchanged_elements,
    seconds=all_to_all_seconds,
    sent_share=ring_share,
    gathered_elements=gathered_elements,
    head_ranks=all_heads,
    aliases=("a2a", "ulysses"),
)
