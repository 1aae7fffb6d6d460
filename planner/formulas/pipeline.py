r"""Bubbles of pipeline schedules: what a step takes beyond the work of its busiest rank.

Symbols: :math:`p` ranks, :math:`v` chunks per rank, :math:`m` micro-batches in a step; :math:`F, B, W`
seconds of forward, input gradient and weight gradient of one micro-batch through the *whole slice* of one
rank, :math:`T` their sum; :math:`c` latency of a message, which occupies nobody. Every bubble is makespan
minus :math:`mT`; where a function says *span*, it is the longest time from first start to last end on one
rank, minus :math:`mT`.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def round_microbatches(pp: Num, microbatches: Num) -> Num:
    r"""Micro-batches that go through one chunk before the next chunk starts.

    .. math:: r = m / \max(1, \lfloor m / p \rfloor)

    Parameters
    ----------
    pp : Num
        Pipeline ranks :math:`p`. [-]
    microbatches : Num
        Micro-batches :math:`m`, divisible into that many rounds. [-]

    Returns
    -------
    Num
        Micro-batches per round; :math:`p` where :math:`p` divides :math:`m`. [-]

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
       Megatron-LM," arXiv:2104.04473, sec. 2.2.2 (rounds of :math:`p`).

    Examples
    --------
    >>> float(round_microbatches(4, 8)), float(round_microbatches(4, 2))
    (4.0, 2.0)
    """
    return microbatches / np.maximum(1.0, np.floor(microbatches / pp))


def gpipe_bubble_seconds(pp: Num, forward: Num, backward: Num, hop: Num) -> Num:
    r"""Bubble when all forwards run before all backwards.

    .. math:: (p-1)(F + B + W + 2c)

    Parameters
    ----------
    pp : Num
        Pipeline ranks :math:`p`. [-]
    forward, backward : Num
        :math:`F` and :math:`B + W`. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    References
    ----------
    .. [1] Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism,"
       arXiv:1811.06965, sec. 2.3 (with :math:`c = 0`).

    Examples
    --------
    >>> gpipe_bubble_seconds(4, 1.0, 2.0, 0.0)
    9.0
    """
    return (pp - 1) * (forward + backward + 2 * hop)


def one_f_one_b_bubble_seconds(pp: Num, microbatches: Num, forward: Num, backward: Num, hop: Num) -> Num:
    r"""Bubble of 1F1B; its waits for messages grow with the micro-batches.

    .. math:: (p-1)(F + B + W) + 2c\,[\,p - 1 + m - 1 - \lceil (m-1)/p \rceil\,]

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, backward : Num
        :math:`F` and :math:`B + W`. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    Notes
    -----
    The first rank has at most :math:`p` micro-batches in flight and a round trip takes
    :math:`pT + 2(p-1)c`. For :math:`m` a multiple of :math:`p` the last factor is :math:`(p-1)m/p + p - 2`.
    Exact for every :math:`c`.

    References
    ----------
    .. [1] D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training,"
       SOSP 2019, sec. 3.2.
    .. [2] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, Table 5 (column 1F1B).

    Examples
    --------
    >>> float(one_f_one_b_bubble_seconds(4, 8, 1.0, 2.0, 0.5))
    17.0
    """
    waits = pp - 1 + (microbatches - 1) - np.ceil((microbatches - 1) / pp)
    return (pp - 1) * (forward + backward) + 2 * hop * waits


def pipedream_wait_seconds(pp: Num, microbatches: Num, hop: Num) -> Num:
    r"""Waits of asynchronous 1F1B over :math:`m` micro-batches of its steady state.

    .. math:: 2cm(p-1)/p

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Time minus work; 0 where messages are free. [s]

    References
    ----------
    .. [1] D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training,"
       SOSP 2019, sec. 3.2.

    Examples
    --------
    >>> pipedream_wait_seconds(4, 8, 0.5)
    6.0
    """
    return 2 * hop * microbatches * (pp - 1) / pp


def looped_bubble_seconds(pp: Num, vpp: Num, per_round: Num, forward: Num, backward: Num, hop: Num) -> Num:
    r"""Bubble of a loop of chunks through which :math:`r` micro-batches go at a time.

    .. math::
       \frac{p-1}{v}(F + B + W) + 2(p-1)c + \frac{v-1}{v} \sum_{X \in \{F,\, B+W\}} \max(0,\; (p-r)X + pvc)

    Parameters
    ----------
    pp, vpp : Num
        :math:`p` and :math:`v`. [-]
    per_round : Num
        Micro-batches :math:`r` that go through a chunk before the next chunk starts. [-]
    forward, backward : Num
        :math:`F` and :math:`B + W` of a whole slice. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    Notes
    -----
    At every change of chunk the first micro-batch of the round comes back after :math:`p(X/v + c)`, while a
    rank has :math:`rX/v` of work. On one rank all turns are local and cost nothing. With :math:`r = p` the
    bubble is :math:`(p-1)T/v + 2(pv-1)c`. Exact.

    References
    ----------
    .. [1] D. Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
       Megatron-LM," arXiv:2104.04473, sec. 2.2.2 (with :math:`r = p`, :math:`c = 0`).
    .. [2] J. Lamy-Poirier, "Breadth-First Pipeline Parallelism," arXiv:2211.05953 (:math:`r = m`).

    Examples
    --------
    >>> float(looped_bubble_seconds(4, 2, 4, 1.0, 2.0, 0.0))
    4.5
    """
    late, hops = pp - per_round, pp * vpp * hop * np.minimum(1.0, pp - 1)
    turns = np.maximum(0.0, late * forward + hops) + np.maximum(0.0, late * backward + hops)
    return (pp - 1) / vpp * (forward + backward) + 2 * (pp - 1) * hop + (vpp - 1) / vpp * turns
