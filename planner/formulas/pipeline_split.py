r"""Bubbles of schedules that split the backward pass: weight gradients fill what others leave idle."""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num


def last_rank_wait_seconds(pipe: Pipe) -> Num:
    r"""Seconds until the last rank can start; it has all its work then. [s]

    .. math:: (p-1)(F + c)

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 2.1.

    Examples
    --------
    >>> last_rank_wait_seconds(Pipe(8, 1, 16, 1.0, 1.0, 1.0, 0.5))
    10.5
    """
    return (pipe.pp - 1) * (pipe.F + pipe.c)


def _exposed_hops(pipe: Pipe) -> Num:
    """Messages in one direction that a rank of ZB-H1 waits for while the pipeline fills and drains. [-]"""
    return pipe.pp - 1 + np.minimum(pipe.pp - 1, np.maximum(0.0, pipe.m - 2))


def zb_h1_span_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-H1 within the longest span of a rank. [s]

    .. math::
       \max\{(p-1)(F + B) - \min(p-1, m-1)\,W + 2c\,[\,p - 1 + \min(p-1, \max(0, m-2))\,],\; (p-1)(B + 2c)\}
       + \max(0, 2c - W)\,(n - \lceil n/p \rceil), \quad n = \max(0, m - p - 1)

    Notes
    -----
    For :math:`m > p` and :math:`2c \le W \le \min(F, B)` it is :math:`(p-1)(F + B - W + 4c)`. Exact where
    :math:`W \le \min(F, B)`.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, Tables 2 (:math:`c = 0`) and 5.

    Examples
    --------
    >>> float(zb_h1_span_bubble_seconds(Pipe(8, 1, 24, 18.522, 18.086, 9.337, 0.601)))
    207.725
    """
    pp, m, W, c = pipe.pp, pipe.m, pipe.W, pipe.c
    fill = (pp - 1) * (pipe.F + pipe.B) - np.minimum(pp - 1, m - 1) * W
    late = np.maximum(0.0, m - pp - 1)
    stalls = np.maximum(0.0, 2 * c - W) * (late - np.ceil(late / pp))
    bubble: Num = np.maximum(fill + 2 * c * _exposed_hops(pipe), (pp - 1) * (pipe.B + 2 * c)) + stalls
    return bubble


def zb_h1_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-H1. [s]

    .. math:: \max\{\text{span bubble},\; (p-1)(F + c)\}

    Notes
    -----
    The last rank cannot start before :math:`(p-1)(F + c)`, and has all its work then.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 2.1.

    Examples
    --------
    >>> float(zb_h1_bubble_seconds(Pipe(8, 1, 16, 1.0, 1.0, 1.0)))
    7.0
    """
    return np.maximum(zb_h1_span_bubble_seconds(pipe), last_rank_wait_seconds(pipe))


def zb_h2_span_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-H2 within the longest span of a rank. [s]

    .. math:: \max\{0,\; (p-1)(F + B + 2c) - \min(2p-2, m-1)\,W,\; (p-1)(B - F + 2c)\}

    Notes
    -----
    Exact where :math:`c \le W \le \min(F, B)`. With :math:`m \ge 2p - 1` the first term is
    :math:`(p-1)(F + B - 2W + 2c)`.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, Tables 2 (:math:`c = 0`) and 5.

    Examples
    --------
    >>> float(zb_h2_span_bubble_seconds(Pipe(8, 1, 24, 1.0, 1.0, 1.0)))
    0.0
    """
    n, F, B, c = pipe.pp - 1, pipe.F, pipe.B, pipe.c
    fill = n * (F + B + 2 * c) - np.minimum(2 * n, pipe.m - 1) * pipe.W
    return np.maximum(np.maximum(0.0, fill), n * (B - F + 2 * c))


def zb_2p_span_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-2p within the longest span of a rank. [s]

    .. math:: \max\{0,\; (p-1)(F + B + 2c) - (m-1)\,W,\; (p-1)(B + 2c) + pF - \min(2p, m)\,F\}

    Notes
    -----
    Any weight gradient may fill any gap: the second term is what all of them leave of warm-up and cool-down,
    the third what the forwards that memory allows leave of the wait for the first gradient. A searched order
    stays within 1% of the step above it.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 3.1 and Table 5.

    Examples
    --------
    >>> round(float(zb_2p_span_bubble_seconds(Pipe(8, 1, 24, 18.522, 18.086, 9.337, 0.601))), 3)
    49.919
    """
    pp, m, F, B, c = pipe.pp, pipe.m, pipe.F, pipe.B, pipe.c
    fill = (pp - 1) * (F + B + 2 * c) - (m - 1) * pipe.W
    wait = (pp - 1) * (B + 2 * c) + pp * F - np.minimum(2 * pp, m) * F
    bubble: Num = np.maximum(np.maximum(0.0, fill), wait)
    return bubble


def zb_2p_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-2p: no searched order has less. [s]

    .. math:: \max\{\text{span bubble},\; (p-1)(F + c)\}

    Notes
    -----
    The last rank cannot start before :math:`(p-1)(F + c)`, and has all its work then.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 3.1.

    Examples
    --------
    >>> float(zb_2p_bubble_seconds(Pipe(8, 1, 24, 1.0, 1.0, 1.0)))
    7.0
    """
    return np.maximum(zb_2p_span_bubble_seconds(pipe), last_rank_wait_seconds(pipe))


def zb_h2_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-H2. [s]

    .. math::
       \max\{\text{span bubble},\; (p-1)(F + c) + (p-1-\lfloor j/2 \rfloor)(B + c) - (j \bmod 2)\,W\}, \quad
       j = \min(m, 2p-1) - 1

    Notes
    -----
    With :math:`m \ge 2p - 1` the second term is :math:`(p-1)(F + c)`: what the last rank waits at the start.
    Exact where :math:`c \le W \le \min(F, B)`.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 2.2.

    Examples
    --------
    >>> float(zb_h2_bubble_seconds(Pipe(8, 1, 24, 1.0, 1.0, 1.0)))
    7.0
    """
    ahead = np.minimum(pipe.m, 2 * pipe.pp - 1) - 1
    pairs = np.floor(ahead / 2)
    start = last_rank_wait_seconds(pipe) + (pipe.pp - 1 - pairs) * (pipe.B + pipe.c)
    bubble: Num = np.maximum(zb_h2_span_bubble_seconds(pipe), start - (ahead - 2 * pairs) * pipe.W)
    return bubble


def interleaved_zb_bubble_seconds(pipe: Pipe, per_round: Num) -> Num:
    r"""Bubble of ZB-H1 over a loop of chunks, :math:`r \ge p` micro-batches at a time. [s]

    .. math::
       \frac{p-1}{v}(F + B - W) + 2c\,[\,p - 1 + \min(p-1, \max(0, m-2))\,] + (v-1)\max(0,\; (p-r)F/v + pc)

    Parameters
    ----------
    per_round : Num
        Micro-batches :math:`r` that go through a chunk before the next chunk starts. [-]

    Notes
    -----
    Where :math:`m < p` the part without messages is the larger of two paths: every turn of either direction
    waits for :math:`p - m` passes and all weight gradients but one are hidden, or gradients do not wait and
    :math:`m - 1` are.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 2.1, for :math:`v = 1`;
       the loop as in arXiv:2104.04473, sec. 2.2.2.

    Examples
    --------
    >>> float(interleaved_zb_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0), 8))
    7.0
    """
    pp, vpp, m, W, c = pipe.pp, pipe.vpp, pipe.m, pipe.W, pipe.c
    late = (vpp - 1) * np.maximum(0.0, pp - per_round) * pipe.B
    filled = np.maximum(late - (m * vpp - 1) * W, -np.minimum(pp - 1, m - 1) * W)
    round_trip = pp * vpp * c * np.minimum(1.0, pp - 1)
    turns = (vpp - 1) * np.maximum(0.0, (pp - per_round) * pipe.F + round_trip)
    fill = (pp - 1) * (pipe.F + pipe.B) + filled
    return (fill + turns) / vpp + 2 * c * _exposed_hops(pipe)
