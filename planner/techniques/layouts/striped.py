"""Striped: token t goes to rank t modulo cp, so that every rank sees every pattern thinned out.

Lines at fixed distances, as dynamic sparse attention keeps them, lie evenly on all ranks in all rounds.
"""

import numpy as np

from planner.techniques.layouts.family import TokenLayout, Tokens, drawn


def queries(seq: int, ranks: int) -> Tokens:
    """Places of queries of every rank in the same strips. [token]"""
    strips = drawn(range(seq // ranks)) * ranks
    return strips[None, :] + np.arange(ranks, dtype=np.int64)[:, None]


def keys(low: Tokens, high: Tokens, seq: int, ranks: int) -> Tokens:
    """Keys of spans whose place leaves the rank's number over. [-]"""
    ranked = np.arange(ranks, dtype=np.int64)
    count: Tokens = (high[..., None] - 1 - ranked) // ranks - (low[..., None] - 1 - ranked) // ranks
    return np.where((high > low)[..., None], count, 0)


ENTRY = TokenLayout(
    name="striped",
    cite="arXiv:2311.09431",
    queries=queries,
    keys=keys,
    aliases=("interleaved", "round-robin"),
)
