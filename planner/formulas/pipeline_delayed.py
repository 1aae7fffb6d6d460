"""Bubbles of schedules whose weight gradients wait until a rank would idle."""

from __future__ import annotations

import numpy as np

from planner.dataclasses import replace
from planner.formulas.pipeline import Pipe, one_f_one_b_bubble_seconds
from planner.formulas.pipeline_split import last_rank_wait_seconds
from planner.numeric import Num


def delayed_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of 1F1B whose weight gradients wait until a rank would idle, or until the end. [s]

    .. math:: \max\{b_{1F1B}(F, B, c) - \min(p-1, m-1)\,W,\; (p-1)(F + c)\}

    References
    ----------
    .. [1] C. Rae, J. Lee, J. Richings, "2BP: 2-Stage Backpropagation," arXiv:2405.18047.

    Examples
    --------
    >>> float(delayed_bubble_seconds(Pipe(4, 1, 4, 1.0, 1.0, 1.0)))
    3.0
    """
    bubble = one_f_one_b_bubble_seconds(replace(pipe, W=0.0 * pipe.W))
    hidden = np.minimum(pipe.pp - 1, pipe.m - 1) * pipe.W
    return np.maximum(bubble - hidden, last_rank_wait_seconds(pipe))


def zeropp_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of units of :math:`p` micro-batches that run breadth-first one after the other. [s]

    .. math::
       \frac{p-1}{v}[\,u(F + B) - 2(u-1)W\,] + c\,[\,2(vp-1) + (u-1)((v+2)p - 2)\,], \quad u = m/p

    Notes
    -----
    Between the last forward and the first gradient of a unit a rank waits for :math:`(p-1)(F + B)/v`, into
    which go weight gradients of the unit before.

    References
    ----------
    .. [1] D. Tang et al., "ZeroPP: Unleashing Exceptional Parallelism Efficiency through
       Tensor-Parallelism-Free Methodology," arXiv:2402.03791. The idea is theirs; the form is of the order in
       ``techniques/schedules/zeropp.py``.

    Examples
    --------
    >>> float(zeropp_bubble_seconds(Pipe(4, 2, 8, 2.0, 2.0, 2.0)))
    6.0
    """
    pp, vpp, units = pipe.pp, pipe.vpp, pipe.m / pipe.pp
    waits = (pp - 1) / vpp * (units * (pipe.F + pipe.B) - 2 * (units - 1) * pipe.W)
    hops = 2 * (vpp * pp - 1) + (units - 1) * ((vpp + 2) * pp - 2)
    return waits + pipe.c * hops * np.minimum(1.0, pp - 1)
