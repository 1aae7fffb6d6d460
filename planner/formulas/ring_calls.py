"""Attention over context-parallel ranks in several calls, whose results are merged."""

from __future__ import annotations

from planner.numeric import Num, minimum


def ring_call_time(slowdown: Num, tokens: Num, visible: Num, known: Num) -> Num:
    r"""Time of attention in several calls over that of one, by the length of a rank's part. [-]

    What a call loses at its edges and what merging takes grow with tokens, the work with tokens times keys.
    An assumption: no public run tells the slow-down of longer parts.

    .. math:: 1 + (\sigma - 1) \min\left(1, \frac{T_0}{\min(T, K)}\right)

    Parameters
    ----------
    slowdown : Num
        What short parts take :math:`\sigma`. [-]
    tokens : Num
        Tokens of a rank's part :math:`T`. [element]
    visible : Num
        Keys :math:`K` that each of them sees in the mean. [element]
    known : Num
        Tokens of a part :math:`T_0` up to which the slow-down was seen. [element]

    References
    ----------
    .. [1] H. Liu, M. Zaharia and P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
       Context," arXiv:2310.01889, sec. 3: work of a block against what moves with it.

    Examples
    --------
    >>> ring_call_time(1.2, 2048.0, 4096.0, 4096.0), round(ring_call_time(1.2, 16384.0, 65536.0, 4096.0), 6)
    (1.2, 1.05)
    """
    return 1.0 + (slowdown - 1.0) * minimum(1.0, known / minimum(tokens, visible))


def merged_each_step_time(slowdown: Num, ranks: Num) -> Num:
    r"""Time of attention whose ring merges after each of its steps, over that of one call. [-]

    The results of :math:`n` equal steps cost :math:`n - 1` times what those of two do.

    .. math:: 1 + 2 (\sigma - 1) \frac{n - 1}{n}

    Parameters
    ----------
    slowdown : Num
        What a ring of two takes :math:`\sigma`. [-]
    ranks : Num
        Ranks of the ring :math:`n`. [-]

    References
    ----------
    .. [1] H. Liu, M. Zaharia and P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
       Context," arXiv:2310.01889, alg. 1: one update of the running result for each block of keys.

    Examples
    --------
    >>> merged_each_step_time(1.2, 1.0), round(merged_each_step_time(1.2, 2.0), 6)
    (1.0, 1.2)
    """
    return 1.0 + 2.0 * (slowdown - 1.0) * (ranks - 1.0) / ranks
