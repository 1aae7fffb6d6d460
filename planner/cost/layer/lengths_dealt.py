"""Context parallelism by length: messages between a document's own ranks alone, and work dealt out."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.dataclasses import dataclass
from planner.formulas.unequal import expected_largest, sequence_ranks
from planner.inputs.lengths import packed
from planner.numeric import Column, Num
from planner.plan import Plan

DEALS: Final = 32
"""Steps that are drawn. [-]"""

DRAWS: Final = 4096
"""Ranks that are drawn. [-]"""

MOST_DEALT: Final = 2**16
"""Sequences of a step up to which they are dealt out one by one; more even out. [-]"""

KEPT_LAYERS: Final = 2.0
"""Layers of a rank whose activations stay on the device whatever is offloaded (arXiv:2502.21231). [-]"""


def is_by_length(case: Case) -> bool:
    """Whether documents of unequal lengths have as many ranks as they need."""
    return case.traits.context.by_length and case.workload.seq_lens is not None


def document_ranks(
    lengths: Column, capacity: float, layers: float, most: float, offloaded: float = 0.0
) -> Column:
    """Ranks of documents: a power of two, as many as hold them, at most all that share data. [-]

    References
    ----------
    .. [1] NVIDIA, Megatron-LM, ``megatron/core/pipeline_parallel/hybrid_cp_schedule.py``:
       ``gpus_needed`` is ``max(1, 2 ** ceil(log2(seq_len / max_seq_len_per_rank)))``.
    """
    needed = np.asarray(sequence_ranks(lengths, capacity, layers, offloaded))
    found: Column = np.minimum(2.0 ** np.ceil(np.log2(needed)), most)
    return found


@dataclass(frozen=True)
class SharedLengths:
    """Documents that have the same number of ranks each; arrays over the plans of a batch."""

    ranks: float
    """Ranks of each. [-]"""
    tokens: Num
    """Their share of all tokens. [-]"""
    length: Num
    """Tokens of the document of a token among them, in the mean. [token]"""


@lru_cache(maxsize=4096)
def _by_ranks(
    source: str, seq_len: int, capacity: float, layers: float, most: int, offloaded: float
) -> dict[float, tuple[float, float]]:
    """Return the share of tokens and the mean length of documents by their number of ranks."""
    lengths = packed(source, seq_len).lengths.astype(float)
    ranks = document_ranks(lengths, capacity, layers, float(most), offloaded)
    found = {}
    for count in np.unique(ranks):
        own = lengths[ranks == count]
        found[float(count)] = float(own.sum() / lengths.sum()), float((own**2).sum() / own.sum())
    return found


def _degrees(case: Case, plan: Plan) -> list[Column]:
    """Tokens that a rank takes, ranks that share data, and the share of layers that may leave the device."""
    work = case.workload
    parts = np.ceil(work.seq_len / np.asarray(plan.cp, float))
    room = parts if work.max_tokens_per_rank is None else 0.0 * parts + work.max_tokens_per_rank
    away = np.minimum(1.0, case.offload.layers / max(case.model.num_layers - KEPT_LAYERS, 1.0))
    return list(np.broadcast_arrays(room, plan.cp * plan.dp, away))


def shared_documents(case: Case, plan: Plan) -> Iterator[SharedLengths]:
    """Yield documents by the number of ranks that share them, of one plan or of many."""
    work, layers = case.workload, float(case.model.num_layers)
    columns = _degrees(case, plan)
    known = [
        _by_ranks(work.seq_lens or "", work.seq_len, float(room), layers, int(most), float(away))
        for room, most, away in zip(*(part.ravel() for part in columns), strict=True)
    ]
    shape = columns[0].shape
    for ranks in sorted({count for one in known for count in one}):
        pairs = np.array([one.get(ranks, (0.0, ranks)) for one in known])
        tokens, length = (pairs[:, index].reshape(shape) for index in (0, 1))
        yield SharedLengths(ranks, *((tokens, length) if shape else (float(tokens), float(length))))


def apart_excess(case: Case, plan: Plan) -> float:
    """Attention of the busiest rank over the mean, minus one, documents of one plan on ranks as they come.

    References
    ----------
    .. [1] H. Ge et al., "ByteScale," arXiv:2502.21231, 2025: hybrid data parallelism before its scheduler.
    """
    known = list(shared_documents(case, plan))
    weights = np.array([float(one.tokens) for one in known])
    costs = np.array([float(one.length) for one in known])
    costs = costs / float(weights @ costs)
    ranks, added = float(plan.cp * plan.dp), max(1, int(plan.micro_batch * plan.num_microbatches))
    if ranks <= 1 or np.ptp(costs) < 1e-9:
        return 0.0
    drawn = np.random.default_rng(2).choice(costs, (DRAWS, added), p=weights / weights.sum()).mean(axis=1)
    return max(0.0, float(expected_largest(drawn, ranks)) - 1.0)


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
