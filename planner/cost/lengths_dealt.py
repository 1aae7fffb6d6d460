"""Context parallelism by length: messages between a document's own ranks alone, and work dealt out."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.formulas.unequal import sequence_ranks
from planner.inputs.lengths import packed
from planner.numeric import Column, Num
from planner.plan import Plan

DEALS: Final = 32
"""Steps that are drawn. [-]"""

MOST_DEALT: Final = 2**16
"""Sequences of a step up to which they are dealt out one by one; more even out. [-]"""


def is_by_length(case: Case) -> bool:
    """Whether documents of unequal lengths have as many ranks as they need."""
    return case.traits.context.by_length and case.workload.seq_lens is not None


def document_ranks(lengths: Column, capacity: float, layers: float, most: float) -> Column:
    """Ranks of documents: a power of two, as many as hold them, at most all that share data. [-]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``megatron/core/pipeline_parallel/hybrid_cp_schedule.py``:
       ``gpus_needed`` is ``max(1, 2 ** ceil(log2(seq_len / max_seq_len_per_rank)))``.
    """
    needed = np.asarray(sequence_ranks(lengths, capacity, layers))
    found: Column = np.minimum(2.0 ** np.ceil(np.log2(needed)), most)
    return found


@lru_cache(maxsize=4096)
def _sent_share(source: str, seq_len: int, capacity: float, layers: float, cp: int, most: int) -> float:
    lengths = packed(source, seq_len).lengths.astype(float)
    ranks = document_ranks(lengths, capacity, layers, float(most))
    sent = float((lengths / lengths.sum() * (ranks - 1.0) / ranks).sum())
    return min(1.0, sent * cp / (cp - 1.0)) if cp > 1 else 0.0


def sent_share(case: Case, plan: Plan) -> Num:
    """Share of the messages of context parallelism that go where documents have their own ranks. [-]"""
    work, layers = case.workload, float(case.model.num_layers)
    degrees = np.broadcast_arrays(np.asarray(plan.cp, float), np.asarray(plan.cp * plan.dp, float))
    found = [
        _sent_share(
            work.seq_lens or "", work.seq_len,
            float(work.max_tokens_per_rank or np.ceil(work.seq_len / cp)), layers, int(cp), int(most),
        )
        for cp, most in zip(*(part.ravel() for part in degrees), strict=True)
    ]  # fmt: skip
    return float(found[0]) if degrees[0].ndim == 0 else np.array(found).reshape(degrees[0].shape)


@lru_cache(maxsize=4096)
def dealt_excess(source: str, seq_len: int, added: int, ranks: int) -> float:
    """Attention of the busiest rank over the mean, minus one, sequences dealt back and forth by length.

    Parameters
    ----------
    source, seq_len
        As `planner.inputs.lengths.packed` takes them.
    added, ranks : int
        Sequences of a rank in a step, and ranks that share them. [-]
    """
    costs = packed(source, seq_len).costs
    if ranks <= 1 or np.ptp(costs) < 1e-9 or added * ranks > MOST_DEALT:
        return 0.0
    drawn = np.random.default_rng(1).choice(costs, (DEALS, added * ranks))
    rows = -np.sort(-drawn, axis=1).reshape(DEALS, added, ranks)
    rows[:, 1::2] = rows[:, 1::2, ::-1]
    each = rows.mean(axis=1)
    return float((each.max(axis=1) / each.mean(axis=1)).mean() - 1.0)
