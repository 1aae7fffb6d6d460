r"""Bubbles of schedules whose chunks lie in a V.

Small letters are times of one chunk, half a slice. Every form is the largest of the critical paths that bind
for some pass times.
"""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num


def _full_beats(pipe: Pipe) -> Num:
    """Beats of ZB-V in which every rank has work of both chunks, :math:`k`. [-]"""
    return np.maximum(0.0, np.minimum(pipe.pp - 2, pipe.m - pipe.pp))


def v_fill_seconds(pipe: Pipe) -> Num:
    r"""Bubble of no more than :math:`p` micro-batches in a V, weight gradients aside. [s]

    .. math:: 2(p - m)^+(f + b) + (\min(m, p) - 1)(b + \max(f, b))

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6 (the V).

    Examples
    --------
    >>> [float(v_fill_seconds(Pipe(8, 2, m, 2.0, 2.0, 2.0))) for m in (8, 1)]
    [14.0, 28.0]
    """
    pp, m, (f, b, _) = pipe.pp, pipe.m, pipe.chunk
    alone = 2 * np.maximum(0.0, pp - m) * (f + b)
    return alone + (np.minimum(m, pp) - 1) * (b + np.maximum(f, b))


def zb_v_span_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-V within the longest span of a rank. [s]

    .. math::
       2kc + \max\{0,\; 2n(b - w + 2c) + k(f-b)^+,\; n(f + b - 2w + 2c) + k(f-b)\}, \quad
       n = p - 1,\; k = (p-2)^+

    Notes
    -----
    Exact where :math:`m \ge 2p - 1`, or :math:`m \le p` and :math:`f \le b`, with
    :math:`8c \le w \le \min(f, b)`. With :math:`m < 2p - 1` micro-batches :math:`k = \min(p-2, m-p)^+`, and
    the second term is that of `v_fill_seconds`, less :math:`2w(m-p)^+`.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6.

    Examples
    --------
    >>> float(zb_v_span_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0)))
    0.0
    """
    m, c, n, (f, b, w) = pipe.m, pipe.c, pipe.pp - 1, pipe.chunk
    k, beyond = _full_beats(pipe), np.maximum(0.0, m - pipe.pp)
    filled = 2 * w * np.minimum(beyond, n) + np.minimum(1.0, beyond) * np.maximum(0.0, f - b)
    fill = v_fill_seconds(pipe) - filled + 4 * n * c
    late = n * (f + b - 2 * w + 2 * c) + k * (f - b)
    bubble: Num = np.maximum(np.maximum(0.0, fill), late) + 2 * k * c
    return bubble


def zb_v_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of ZB-V. [s]

    .. math::
       \max\{\text{span bubble},\; 2kc + n(b + 3c) + k(f-b)^+,\; 2kc + n(f + c) + k(f-b)\}, \quad
       n = p - 1,\; k = (p-2)^+

    Notes
    -----
    Exact where the span bubble is.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6.

    Examples
    --------
    >>> float(zb_v_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0)))
    7.0
    """
    c, n, k, (f, b, _) = pipe.c, pipe.pp - 1, _full_beats(pipe), pipe.chunk
    down = n * (b + 3 * c) + k * np.maximum(0.0, f - b)
    up = n * (f + c) + k * (f - b)
    return np.maximum(zb_v_span_bubble_seconds(pipe), np.maximum(down, up) + 2 * k * c)


def v_zb_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of V-ZB. [s]

    .. math::
       \max\{(p-1)(x + b - w + 4c),\; 2(p-m)^+(f + b) + (\min(m, p) - 1)(x + b) - mw + 4(p-1)c\}, \quad
       x = \max(f, b)

    Notes
    -----
    The second term binds where :math:`m < p`; without messages it is exact where :math:`w \le \min(f, b)`.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4.

    Examples
    --------
    >>> float(v_zb_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0)))
    7.0
    """
    c, n, (f, b, w) = pipe.c, pipe.pp - 1, pipe.chunk
    few = v_fill_seconds(pipe) - pipe.m * w + 4 * n * c
    return np.maximum(n * (np.maximum(f, b) + b - w + 4 * c), few)


def v_half_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of V-Half, to about one chunk pass. [s]

    .. math::
       \max\{(p+e)f + (3p-3)b,\; (2p + e')f + (2p - 4 + e')b\} - hw + e'(b - 2f)^+
       + (5.5p - 4)c + (m - \lfloor p/2 \rfloor - 1)^+ \max(0,\; 2|b - f| + 2c - w)

    with :math:`e = \pm 1` and :math:`e' = 1, 0` for even and odd :math:`p`, and
    :math:`h = e' + \min(m, \lfloor 3p/4 \rfloor + 1)`.

    Notes
    -----
    The last term is what every micro-batch waits where :math:`w + 2f < 2b` or :math:`w + 2b < 2f`. For
    :math:`m \le \lfloor p/2 \rfloor + 1` the first is :math:`(2p - 2 + e')(f + b) + 2(m - 1 - e')(b - f)^+`,
    and one micro-batch waits :math:`(2p - 2)(f + b) - w`. Two ranks save the rest of a forward that
    outlasts the weight gradient.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4 and app. D.

    Examples
    --------
    >>> float(v_half_bubble_seconds(Pipe(8, 2, 24, 2.0, 2.0, 2.0)))
    22.0
    >>> float(v_half_bubble_seconds(Pipe(8, 2, 1, 2.0, 2.0, 2.0)))
    27.0
    """
    pp, m, c, (f, b, w) = pipe.pp, pipe.m, pipe.c, pipe.chunk
    even, half = 1 - np.mod(pp, 2), np.floor(pp / 2)
    hidden = (np.minimum(np.floor(0.75 * pp) + 1, m) + even) * w
    turn = even * np.maximum(0.0, b - 2 * f) * np.minimum(1.0, np.maximum(0.0, m - half))
    slow_backward = (pp - 1 + 2 * even) * f + (3 * pp - 3) * b
    slow_forward = (2 * pp + even) * f + (2 * pp - 4 + even) * b
    slow_forward = slow_forward - np.maximum(0.0, 3 - pp) * np.maximum(0.0, f - w)
    stall = np.maximum(0.0, 2 * np.abs(b - f) + 2 * c - w) * np.maximum(0.0, m - half - 1)
    many = np.maximum(slow_backward, slow_forward) - hidden + (5.5 * pp - 4) * c + stall
    few = (2 * pp - 2 + even) * (f + b) + 2 * (m - 1 - even) * np.maximum(0.0, b - f) - hidden
    one = (2 * pp - 2) * (f + b) - w
    few = np.where(np.less(m, 2), one, few) + 4 * (pp - 1) * c
    bubble: Num = np.where(np.less_equal(m, half + 1), few, many) + turn
    return bubble * np.minimum(1.0, pp - 1)


def v_min_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of V-Min, to about one chunk pass; unequal passes and messages cost every micro-batch. [s]

    .. math::
       m\,[\,4x - 2y - 2w + (6 - 2/k)c\,] + 2py + (2p-6)x + w + z + (4p - 10)c, \quad
       x = \max(f, b),\; y = \min(f, b),\; k = \lfloor p/3 \rfloor

    where :math:`z = \max(y, 4y - 2x)` if 3 divides :math:`p`, else 0.

    Notes
    -----
    In :math:`z`, :math:`y` counts from :math:`k + 1` micro-batches on, :math:`4y - 2x` from two on. Two ranks
    take :math:`m(2x - y - w) + 3y`, or a little more.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4 and app. D.

    Examples
    --------
    >>> float(v_min_bubble_seconds(Pipe(8, 2, 24, 2.0, 2.0, 2.0)))
    27.0
    >>> float(v_min_bubble_seconds(Pipe(8, 2, 1, 2.0, 2.0, 2.0)))
    27.0
    """
    pp, m, c, (f, b, w) = pipe.pp, pipe.m, pipe.c, pipe.chunk
    x, y, k = np.maximum(f, b), np.minimum(f, b), np.maximum(1.0, np.floor(pp / 3))
    triple = np.maximum(0.0, 1 - np.mod(pp, 3)) * np.minimum(1.0, m - 1)
    late = np.minimum(1.0, np.maximum(0.0, m - k))
    hops = (6 - 2 / k) * c
    steady = np.maximum(0.0, 4 * x - 2 * y - 2 * w + hops)
    ends = 2 * pp * y + (2 * pp - 6) * x + w + triple * np.maximum(late * y, 4 * y - 2 * x)
    many = m * steady + ends + np.maximum(0.0, 4 * pp - 10) * c
    pair = m * np.maximum(0.0, 2 * x - y - w + hops) + 3 * y
    bubble: Num = np.where(np.less(pp, 3), pair, many)
    return bubble * np.minimum(1.0, pp - 1)


def dualpipe_v_bubble_seconds(pipe: Pipe) -> Num:
    r"""Bubble of DualPipeV where forward and backward of a pair run one after the other. [s]

    .. math:: \max\{(p-1)(f + b - w + 4c),\; (p-1)(2b - w + 6c) - f\}

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, sec. 3.2.1;
       https://github.com/deepseek-ai/DualPipe.

    Examples
    --------
    >>> float(dualpipe_v_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0)))
    7.0
    """
    n, c, (f, b, w) = pipe.pp - 1, pipe.c, pipe.chunk
    return np.maximum(n * (f + b - w + 4 * c), n * (2 * b - w + 6 * c) - f)
