"""Contiguous parts: rank i has the i-th part; of causal attention the last has nearly twice the mean."""

import numpy as np

from planner.techniques.layouts.family import TokenLayout, Tokens, drawn, part_of, within


def queries(seq: int, ranks: int) -> Tokens:
    """Places of queries of the i-th of as many parts as ranks. [token]"""
    return np.stack([drawn(part_of(rank, seq, ranks)) for rank in range(ranks)])


def keys(low: Tokens, high: Tokens, seq: int, ranks: int) -> Tokens:
    """Keys of spans in each part."""
    return np.stack([within(low, high, part_of(rank, seq, ranks)) for rank in range(ranks)], axis=-1)


ENTRY = TokenLayout(
    name="contiguous", cite="arXiv:2310.01889", queries=queries, keys=keys, aliases=("ordered",)
)
