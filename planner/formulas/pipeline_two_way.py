r"""Bubbles of schedules whose micro-batches enter at both ends of the pipeline.

The symbols are those of `planner.formulas.pipeline`.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def dualpipe_bubble_seconds(
    pp: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of DualPipe where forward and backward of a pair run one after the other.

    .. math:: \max\{n(F + B - W) + (5n + 2)c,\; n(2B - W) - F + (6n + 2)c\}, \quad n = p/2 - 1

    Parameters
    ----------
    pp : Num
        :math:`p`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W`. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, sec. 3.2.1.

    Examples
    --------
    >>> float(dualpipe_bubble_seconds(8, 1.0, 1.0, 1.0, 0.0))
    3.0
    """
    n = pp / 2 - 1
    even = n * (forward + input_gradient - weight_gradient) + (5 * n + 2) * hop
    slow_backward = n * (2 * input_gradient - weight_gradient) - forward + (6 * n + 2) * hop
    return np.maximum(even, slow_backward)


def bitpipe_bubble_seconds(pp: Num, microbatches: Num, forward: Num, backward: Num, hop: Num) -> Num:
    r"""Bubble of BitPipe as released, units of :math:`p` micro-batches joined directly.

    .. math:: \frac{p - 2}{2}[\,u B_f - (u-1)F\,] + (5p - 7)c + (u-1)(4p - 5)c, \quad u = m/p

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, backward : Num
        :math:`F` and :math:`B_f` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

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
    >>> float(bitpipe_bubble_seconds(8, 8, 2.0, 4.0, 0.0))
    12.0
    """
    units = microbatches / pp
    waits = (pp - 2) / 2 * (units * backward - (units - 1) * forward)
    hops = 5 * pp - 7 + (units - 1) * (4 * pp - 5) + units * np.maximum(0.0, 3 - pp)
    return waits + hops * hop
