"""What unequal lengths cost a step: ranks that wait for the one with the longest documents."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.lengths_dealt import dealt_excess, is_by_length
from planner.cost.layer.operators import Pricer
from planner.dataclasses import replace
from planner.formulas.unequal import expected_largest
from planner.inputs.lengths import packed
from planner.numeric import Column, Num, where
from planner.plan import Plan

DRAWN: Final = 2048
"""Draws of what a rank's sequences cost. [-]"""

MOST_ADDED: Final = 256
"""Sequences up to which their costs are added up one by one; beyond it the sum is as good as normal. [-]"""


Excess = Callable[[str, int, int, int], float]
"""Function of (source, length packed to, sequences of a rank, ranks): the busiest rank's over the mean."""


def attention_seconds(case: Case, plan: Plan) -> Num:
    """Seconds of a micro-batch's attention on the mean stage that grow with the lengths of documents. [s]"""
    work = case.workload.model_copy(update={"seq_lens": None, "document_tokens": 1})
    alone = replace(case, job=replace(case.job, workload=work))
    long, short = Pricer(case, plan), Pricer(alone, plan)
    again = 1.0 if case.recompute.layers and case.recompute.whole_layer else 0.0
    found: Num = 0.0
    for name in dict.fromkeys(case.model.layers):
        mixer = case.model.blocks[name].attention
        if mixer is None:
            continue
        parts = [pricer.attention(mixer, mixer.heads / plan.tp) for pricer in (long, short)]
        forward = parts[0].forward - parts[1].forward
        each = (1.0 + again) * forward + parts[0].backward - parts[1].backward
        found = found + case.model.layers.count(name) * each / plan.pp
    return found


def waits_each_pass(case: Case, plan: Plan) -> Num:
    """One where ranks of data parallelism wait for one another in every micro-batch, else zero. [-]

    Sharded weights are gathered and their gradients reduced in each pass, and experts are reached across
    ranks; all others meet once at the end of the step (arXiv:2601.19362, sec. 2).
    """
    return where(np.greater(plan.ep, 1), 1.0, 1.0 if case.sharding.stage == 3 else 0.0)


@lru_cache(maxsize=4096)
def excess(source: str, seq_len: int, added: int, ranks: int) -> float:
    """Expected attention of the busiest rank over the mean, minus one, each with sequences drawn at random.

    Parameters
    ----------
    source, seq_len
        As `planner.inputs.lengths.packed` takes them.
    added : int
        Sequences that a rank adds up. [-]
    ranks : int
        Ranks that wait for one another. [-]
    """
    costs = packed(source, seq_len).costs
    if ranks <= 1 or np.ptp(costs) < 1e-9:
        return 0.0
    if added == 1:
        draws = costs
    elif added <= MOST_ADDED:
        draws = np.random.default_rng(0).choice(costs, (DRAWN, added)).mean(axis=1)
    else:
        from scipy.special import ndtri

        middles = (np.arange(DRAWN) + 0.5) / DRAWN
        draws = 1.0 + float(costs.std()) / np.sqrt(added) * ndtri(middles)
    return max(0.0, float(expected_largest(draws, float(ranks))) - float(draws.mean()))


def excesses(case: Case, added: Num, ranks: Num, of: Excess = excess) -> Num:
    """Return `excess`, or that of another way to deal sequences out, for one plan or for many. [-]"""
    work = case.workload
    pairs = np.broadcast_arrays(np.asarray(added, float), np.asarray(ranks, float))
    stacked: Column = np.stack([part.ravel() for part in pairs])
    kinds, places = np.unique(stacked, axis=1, return_inverse=True)
    known = np.array([of(work.seq_lens or "", work.seq_len, int(k), int(n)) for k, n in kinds.T])
    found = known[places.ravel()].reshape(pairs[0].shape)
    return float(found) if found.ndim == 0 else found


def waiting_seconds(case: Case, plan: Plan) -> Num:
    r"""Seconds of a step that ranks wait because lengths are unequal, sequences dealt out as they come. [s]

    .. math:: t = a \left(m\,e(b, n) w + m\,e(bm, n) (1 - w) + (p - 1)\,e(b, m)\right)

    with attention :math:`a` of a micro-batch, :math:`m` micro-batches of :math:`b` sequences, the expected
    excess :math:`e` of the largest of several draws, :math:`n` ranks, :math:`p` stages, and :math:`w` one
    where ranks wait in each pass: the sum of maxima, against the maximum of sums.

    References
    ----------
    .. [1] ODC, arXiv:2601.19362, sec. 2: FSDP's step is the sum over micro-batches of the slowest rank's.
    """
    if case.workload.seq_lens is None:
        return 0.0
    count, size, ranks = plan.num_microbatches, plan.micro_batch, plan.dp
    if is_by_length(case):
        return attention_seconds(case, plan) * count * excesses(case, size * count, ranks, dealt_excess)
    every = waits_each_pass(case, plan)
    apart = count * excesses(case, size, ranks)
    summed = count * excesses(case, size * count, ranks)
    fill = (plan.pp - 1.0) * excesses(case, size, count)
    return attention_seconds(case, plan) * (every * apart + (1.0 - every) * summed + fill)
