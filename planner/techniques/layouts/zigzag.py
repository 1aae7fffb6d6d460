"""Zigzag: rank i has parts i and 2 cp - 1 - i of 2 cp, an early one and a late one.

Dense causal attention is equal on all ranks and in each round of a ring; of sparse patterns, whose lines lie
at fixed distances, a round has much for some ranks and nothing for others.
"""

import numpy as np

from planner.techniques.layouts.family import TokenLayout, Tokens, drawn, part_of, within


def pairs(seq: int, ranks: int) -> list[tuple[range, range]]:
    """Return the early and the late part of every rank. [token]"""
    parts = [part_of(index, seq, 2 * ranks) for index in range(2 * ranks)]
    return list(zip(parts[:ranks], reversed(parts[ranks:]), strict=True))


def queries(seq: int, ranks: int) -> Tokens:
    """Places of queries of the early and the late part of every rank. [token]"""
    return np.stack([np.concatenate([drawn(early), drawn(late)]) for early, late in pairs(seq, ranks)])


def keys(low: Tokens, high: Tokens, seq: int, ranks: int) -> Tokens:
    """Keys of spans in both parts of every rank."""
    each = [within(low, high, early) + within(low, high, late) for early, late in pairs(seq, ranks)]
    return np.stack(each, axis=-1)


ENTRY = TokenLayout(
    name="zigzag", cite="arXiv:2407.21783", queries=queries, keys=keys, aliases=("load-balanced", "head-tail")
)
