"""Messages and arithmetic of an optimizer that works on whole matrices."""

from __future__ import annotations

from collections.abc import Iterable

from planner.cost.case import Case
from planner.cost.memory.matrices import TENSOR_BYTES, Matrices, SharedMatrices, is_owned, model_matrices
from planner.dataclasses import replace
from planner.formulas.collectives import ring_seconds, ring_sent_bytes
from planner.numeric import Num

GATHERED_BYTES = 2.0
"""Momentum that data-parallel ranks gather, in bf16 (arXiv:2502.16982, section 2.3). [byte]"""


def tensor_sent(case: Case, matrices: Iterable[SharedMatrices]) -> Num:
    """Bytes that one rank sends so that tensor-parallel ranks see whole matrices. [byte]"""
    sent: Num = 0.0
    if case.optimizer.whole_matrices:
        for one in matrices:
            sent = sent + ring_sent_bytes(TENSOR_BYTES * one.owned, one.width)
    return sent


def data_sent(case: Case, matrices: Iterable[SharedMatrices]) -> Num:
    """Bytes that one rank sends so that ranks which share states see whole matrices. [byte]"""
    sent: Num = 0.0
    if _gathers(case):
        for one in matrices:
            sent = sent + ring_sent_bytes(GATHERED_BYTES * one.local, one.shards)
    return sent


def _gathers(case: Case) -> bool:
    """Whether ranks gather what they share of matrices: not where each owns whole ones."""
    return case.optimizer.whole_matrices and case.sharding.shards_optimizer and not is_owned(case)


def step_seconds(case: Case, one: SharedMatrices) -> Num:
    """Seconds of the arithmetic, with the gather of its results where replicas deal it out. [s]

    What needs no whole matrices is shared by ranks that share states, and by tensor-parallel ones.

    References
    ----------
    .. [1] H.-J. M. Shi et al., arXiv:2309.06497, 2023, sec. 4: search directions are gathered once a step.
    """
    step = case.optimizer.matrix
    if step is None:
        return 0.0
    rate = step.rate_share * case.kernels.gemm["bf16"].rate
    if step.whole:
        return one.flops / rate
    work = one.local * one.kind.rate / one.shards
    if not step.dealt:
        return work / rate
    nbytes = TENSOR_BYTES * one.local / one.shards
    results = ring_seconds(nbytes, one.copies, one.stride * one.shards, case.tiers)
    return work / one.copies / rate + results


def exchanged_share(case: Case) -> float:
    """Share of a matrix's gradient that replicas reduce: of Dion both factors of its update. [-]"""
    step = case.optimizer.matrix
    if step is None or step.exchanged is None or not case.method.trains_base:
        return 1.0
    return model_matrices(case.model, step, False).exchanged


def whole_matrix_seconds(case: Case, matrices: Iterable[SharedMatrices], divisible: bool = False) -> Num:
    """Seconds to gather momentum and orthogonalise it, which nothing hides. [s]

    ``divisible``: whether ranks are taken to share matrices evenly, as a bound must where only the mean stage
    is known.
    """
    seconds: Num = 0.0
    for one in matrices:
        one = replace(one, kind=Matrices(one.kind.rate, 0.0, 0.0)) if divisible else one
        seconds = seconds + step_seconds(case, one)
        if case.optimizer.whole_matrices:
            nbytes = TENSOR_BYTES * one.owned
            seconds = seconds + ring_seconds(nbytes, one.width, 1.0, case.tensor_tiers)
        if _gathers(case):
            nbytes = GATHERED_BYTES * one.local
            seconds = seconds + ring_seconds(nbytes, one.shards, one.stride, case.tiers)
    return seconds
