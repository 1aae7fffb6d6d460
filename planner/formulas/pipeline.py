r"""Bubbles of pipeline schedules: what a step takes beyond the work of its busiest rank.

Every closed form is a function of `Pipe`, the symbols of the papers; :math:`T = F + B + W`. Every bubble is
makespan minus :math:`mT`; where a function says *span*, it is the longest time from first start to last end
on one rank, minus :math:`mT`.
"""

from __future__ import annotations

from dataclasses import dataclass

from planner.numeric import Num, ceil, floor, maximum, minimum


@dataclass(frozen=True, slots=True)
class Pipe:
    r"""The symbols of the papers, for one pipeline or a column of them.

    Parameters
    ----------
    pp : Num
        Pipeline ranks :math:`p`. [-]
    vpp : Num
        Chunks :math:`v` of the model on each rank. [-]
    m : Num
        Micro-batches :math:`m` in a step. [-]
    F : Num
        Forward :math:`F` of one micro-batch through the whole slice of one rank. [s]
    B : Num
        Input gradient :math:`B` of one micro-batch through the slice. [s]
    W : Num
        Weight gradient :math:`W` of one micro-batch through the slice. [s]
    c : Num
        Latency :math:`c` of a message, which occupies nobody. [s]

    Examples
    --------
    >>> Pipe(4, 2, 8, 1.0, 1.2, 0.8).chunk
    (0.5, 0.6, 0.4)
    """

    pp: Num
    vpp: Num
    m: Num
    F: Num
    B: Num
    W: Num
    c: Num = 0.0

    @property
    def backward(self) -> Num:
        """Both gradients in one pass, :math:`B + W`. [s]"""
        return self.B + self.W

    @property
    def chunk(self) -> tuple[Num, Num, Num]:
        """The three passes of one chunk, :math:`f, b, w`. [s]"""
        return self.F / self.vpp, self.B / self.vpp, self.W / self.vpp


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
    return microbatches / maximum(1.0, floor(microbatches / pp))


def gpipe_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble when all forwards run before all backwards. [s]

    .. math:: (p-1)(F + B + W + 2c)

    References
    ----------
    .. [1] Y. Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism,"
       arXiv:1811.06965, sec. 2.3 (with :math:`c = 0`).

    Examples
    --------
    >>> gpipe_bubble_seconds(Pipe(4, 1, 8, 1.0, 1.0, 1.0))
    9.0
    """
    return (pipe.pp - 1) * (pipe.F + pipe.backward + 2 * pipe.c)


def one_f_one_b_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of 1F1B; its waits for messages grow with the micro-batches. [s]

    .. math:: (p-1)(F + B + W) + 2c\,[\,p - 1 + m - 1 - \lceil (m-1)/p \rceil\,]

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
    >>> float(one_f_one_b_bubble_seconds(Pipe(4, 1, 8, 1.0, 1.0, 1.0, 0.5)))
    17.0
    """
    waits = pipe.pp - 1 + (pipe.m - 1) - ceil((pipe.m - 1) / pipe.pp)
    return (pipe.pp - 1) * (pipe.F + pipe.backward) + 2 * pipe.c * waits


def pipedream_wait_seconds(pipe: Pipe) -> Num:
    r"""Waits of asynchronous 1F1B over :math:`m` micro-batches of its steady state. [s]

    .. math:: 2cm(p-1)/p

    References
    ----------
    .. [1] D. Narayanan et al., "PipeDream: Generalized Pipeline Parallelism for DNN Training,"
       SOSP 2019, sec. 3.2.

    Examples
    --------
    >>> pipedream_wait_seconds(Pipe(4, 1, 8, 1.0, 1.0, 1.0, 0.5))
    6.0
    """
    return 2 * pipe.c * pipe.m * (pipe.pp - 1) / pipe.pp


def looped_bubble_seconds(pipe: Pipe, per_round: Num) -> Num:
    r"""Bubble of a loop of chunks through which :math:`r` micro-batches go at a time. [s]

    .. math::
       \frac{p-1}{v}(F + B + W) + 2(p-1)c + \frac{v-1}{v} \sum_{X \in \{F,\, B+W\}} \max(0,\; (p-r)X + pvc)

    Parameters
    ----------
    per_round : Num
        Micro-batches :math:`r` that go through a chunk before the next chunk starts. [-]

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
    >>> float(looped_bubble_seconds(Pipe(4, 2, 8, 1.0, 1.0, 1.0), 4))
    4.5
    """
    pp, vpp, c, backward = pipe.pp, pipe.vpp, pipe.c, pipe.backward
    late, hops = pp - per_round, pp * vpp * c * minimum(1.0, pp - 1)
    turns = maximum(0.0, late * pipe.F + hops) + maximum(0.0, late * backward + hops)
    return (pp - 1) / vpp * (pipe.F + backward) + 2 * (pp - 1) * c + (vpp - 1) / vpp * turns
