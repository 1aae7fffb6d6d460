"""Bubbles of schedules whose micro-batches enter at both ends of the pipeline."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num


def dualpipe_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of DualPipe where forward and backward of a pair run one after the other. [s]

    .. math:: \max\{n(F + B - W) + (5n + 2)c,\; n(2B - W) - F + (6n + 2)c\}, \quad n = p/2 - 1

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, sec. 3.2.1.

    Examples
    --------
    >>> float(dualpipe_bubble_seconds(Pipe(8, 1, 16, 1.0, 1.0, 1.0)))
    3.0
    """
    n = pipe.pp / 2 - 1
    even = n * (pipe.F + pipe.B - pipe.W) + (5 * n + 2) * pipe.c
    slow_backward = n * (2 * pipe.B - pipe.W) - pipe.F + (6 * n + 2) * pipe.c
    return np.maximum(even, slow_backward)


def bitpipe_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of BitPipe as released, units of :math:`p` micro-batches joined directly. [s]

    .. math:: \frac{p - 2}{2}[\,u B_f - (u-1)F\,] + (5p - 7)c + (u-1)(4p - 5)c, \quad u = m/p,\; B_f = B + W

    Notes
    -----
    Exact where :math:`F \le B_f` and messages are short. With :math:`B_f = 2F` and :math:`c = 0` it is
    :math:`(p-2)(m/p + 1)` forwards of a chunk. Two ranks pay one message more in each unit.

    References
    ----------
    .. [1] H. Wu et al., "BitPipe: Bidirectional Interleaved Pipeline Parallelism for Accelerating
       Large Models Training," arXiv:2410.19367; https://github.com/wuhouming/BitPipe.

    Examples
    --------
    >>> float(bitpipe_bubble_seconds(Pipe(8, 2, 8, 2.0, 2.0, 2.0)))
    12.0
    """
    pp, units = pipe.pp, pipe.m / pipe.pp
    waits = (pp - 2) / 2 * (units * pipe.backward - (units - 1) * pipe.F)
    hops = 5 * pp - 7 + (units - 1) * (4 * pp - 5) + units * np.maximum(0.0, 3 - pp)
    return waits + hops * pipe.c
