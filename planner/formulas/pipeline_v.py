r"""Bubbles of schedules whose chunks lie in a V.

The symbols are those of `planner.formulas.pipeline`; small letters are times of one chunk, half a slice.
Every form is the largest of the critical paths that bind for some pass times.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def v_fill_seconds(pp: Num, microbatches: Num, forward: Num, input_gradient: Num) -> Num:
    r"""Bubble of no more than :math:`p` micro-batches in a V, weight gradients aside.

    .. math:: 2(p - m)^+(f + b) + (\min(m, p) - 1)(b + \max(f, b))

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient : Num
        :math:`F`, :math:`B` of a whole slice, two chunks. [s]

    Returns
    -------
    Num
        What the first micro-batch waits on its way down and up, less the others' passes. [s]

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6 (the V).

    Examples
    --------
    >>> float(v_fill_seconds(8, 8, 2.0, 2.0)), float(v_fill_seconds(8, 1, 2.0, 2.0))
    (14.0, 28.0)
    """
    f, b = forward / 2, input_gradient / 2
    alone = 2 * np.maximum(0.0, pp - microbatches) * (f + b)
    return alone + (np.minimum(microbatches, pp) - 1) * (b + np.maximum(f, b))


def zb_v_span_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of ZB-V within the longest span of a rank.

    .. math::
       2kc + \max\{0,\; 2n(b - w + 2c) + k(f-b)^+,\; n(f + b - 2w + 2c) + k(f-b)\}, \quad
       n = p - 1,\; k = (p-2)^+

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Longest span minus work. [s]

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
    >>> float(zb_v_span_bubble_seconds(8, 16, 2.0, 2.0, 2.0, 0.0))
    0.0
    """
    f, b, w, n = forward / 2, input_gradient / 2, weight_gradient / 2, pp - 1
    k = np.maximum(0.0, np.minimum(pp - 2, microbatches - pp))
    beyond = np.maximum(0.0, microbatches - pp)
    filled = 2 * w * np.minimum(beyond, n) + np.minimum(1.0, beyond) * np.maximum(0.0, f - b)
    fill = v_fill_seconds(pp, microbatches, forward, input_gradient) - filled + 4 * n * hop
    late = n * (f + b - 2 * w + 2 * hop) + k * (f - b)
    bubble: Num = np.maximum(np.maximum(0.0, fill), late) + 2 * k * hop
    return bubble


def zb_v_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of ZB-V.

    .. math::
       \max\{\text{span bubble},\; 2kc + n(b + 3c) + k(f-b)^+,\; 2kc + n(f + c) + k(f-b)\}, \quad
       n = p - 1,\; k = (p-2)^+

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    Notes
    -----
    Exact where the span bubble is.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6.

    Examples
    --------
    >>> float(zb_v_bubble_seconds(8, 16, 2.0, 2.0, 2.0, 0.0))
    7.0
    """
    f, b, n = forward / 2, input_gradient / 2, pp - 1
    k = np.maximum(0.0, np.minimum(pp - 2, microbatches - pp))
    span = zb_v_span_bubble_seconds(pp, microbatches, forward, input_gradient, weight_gradient, hop)
    down = n * (b + 3 * hop) + k * np.maximum(0.0, f - b)
    up = n * (f + hop) + k * (f - b)
    return np.maximum(span, np.maximum(down, up) + 2 * k * hop)


def v_zb_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-ZB.

    .. math::
       \max\{(p-1)(x + b - w + 4c),\; 2(p-m)^+(f + b) + (\min(m, p) - 1)(x + b) - mw + 4(p-1)c\}, \quad
       x = \max(f, b)

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    Notes
    -----
    The second term binds where :math:`m < p`; without messages it is exact where :math:`w \le \min(f, b)`.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4.

    Examples
    --------
    >>> float(v_zb_bubble_seconds(8, 16, 2.0, 2.0, 2.0, 0.0))
    7.0
    """
    n, longer = pp - 1, np.maximum(forward, input_gradient)
    few = v_fill_seconds(pp, microbatches, forward, input_gradient) - microbatches * weight_gradient / 2
    full = n * ((longer + input_gradient - weight_gradient) / 2 + 4 * hop)
    return np.maximum(full, few + 4 * n * hop)


def v_half_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-Half, to about one chunk pass.

    .. math::
       \max\{(p+e)f + (3p-3)b,\; (2p + e')f + (2p - 4 + e')b\} - hw + e'(b - 2f)^+
       + (5.5p - 4)c + (m - \lfloor p/2 \rfloor - 1)^+ \max(0,\; 2|b - f| + 2c - w)

    with :math:`e = \pm 1` and :math:`e' = 1, 0` for even and odd :math:`p`, and
    :math:`h = e' + \min(m, \lfloor 3p/4 \rfloor + 1)`.

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

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
    >>> float(v_half_bubble_seconds(8, 24, 2.0, 2.0, 2.0, 0.0))
    22.0
    >>> float(v_half_bubble_seconds(8, 1, 2.0, 2.0, 2.0, 0.0))
    27.0
    """
    f, b, w, even = forward / 2, input_gradient / 2, weight_gradient / 2, 1 - np.mod(pp, 2)
    half = np.floor(pp / 2)
    hidden = (np.minimum(np.floor(0.75 * pp) + 1, microbatches) + even) * w
    turn = even * np.maximum(0.0, b - 2 * f) * np.minimum(1.0, np.maximum(0.0, microbatches - half))
    slow_backward = (pp - 1 + 2 * even) * f + (3 * pp - 3) * b
    slow_forward = (2 * pp + even) * f + (2 * pp - 4 + even) * b
    slow_forward = slow_forward - np.maximum(0.0, 3 - pp) * np.maximum(0.0, f - w)
    stall = np.maximum(0.0, 2 * np.abs(b - f) + 2 * hop - w) * np.maximum(0.0, microbatches - half - 1)
    many = np.maximum(slow_backward, slow_forward) - hidden + (5.5 * pp - 4) * hop + stall
    few = (2 * pp - 2 + even) * (f + b) + 2 * (microbatches - 1 - even) * np.maximum(0.0, b - f) - hidden
    one = (2 * pp - 2) * (f + b) - w
    few = np.where(np.less(microbatches, 2), one, few) + 4 * (pp - 1) * hop
    bubble: Num = np.where(np.less_equal(microbatches, half + 1), few, many) + turn
    return bubble * np.minimum(1.0, pp - 1)


def v_min_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-Min, to about one chunk pass; unequal passes and messages cost every micro-batch.

    .. math::
       m\,[\,4x - 2y - 2w + (6 - 2/k)c\,] + 2py + (2p-6)x + w + z + (4p - 10)c, \quad
       x = \max(f, b),\; y = \min(f, b),\; k = \lfloor p/3 \rfloor

    where :math:`z = \max(y, 4y - 2x)` if 3 divides :math:`p`, else 0.

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    Notes
    -----
    In :math:`z`, :math:`y` counts from :math:`k + 1` micro-batches on, :math:`4y - 2x` from two on. Two ranks
    take :math:`m(2x - y - w) + 3y`, or a little more.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4 and app. D.

    Examples
    --------
    >>> float(v_min_bubble_seconds(8, 24, 2.0, 2.0, 2.0, 0.0))
    27.0
    >>> float(v_min_bubble_seconds(8, 1, 2.0, 2.0, 2.0, 0.0))
    27.0
    """
    x, y = np.maximum(forward, input_gradient) / 2, np.minimum(forward, input_gradient) / 2
    w, k = weight_gradient / 2, np.maximum(1.0, np.floor(pp / 3))
    triple = np.maximum(0.0, 1 - np.mod(pp, 3)) * np.minimum(1.0, microbatches - 1)
    late = np.minimum(1.0, np.maximum(0.0, microbatches - k))
    hops = (6 - 2 / k) * hop
    steady = np.maximum(0.0, 4 * x - 2 * y - 2 * w + hops)
    ends = 2 * pp * y + (2 * pp - 6) * x + w + triple * np.maximum(late * y, 4 * y - 2 * x)
    many = microbatches * steady + ends + np.maximum(0.0, 4 * pp - 10) * hop
    pair = microbatches * np.maximum(0.0, 2 * x - y - w + hops) + 3 * y
    bubble: Num = np.where(np.less(pp, 3), pair, many)
    return bubble * np.minimum(1.0, pp - 1)


def dualpipe_v_bubble_seconds(
    pp: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of DualPipeV where forward and backward of a pair run one after the other.

    .. math:: \max\{(p-1)(f + b - w + 4c),\; (p-1)(2b - w + 6c) - f\}

    Parameters
    ----------
    pp : Num
        :math:`p`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]
    hop : Num
        Latency of a message :math:`c`. [s]

    Returns
    -------
    Num
        Makespan minus work. [s]

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, sec. 3.2.1;
       https://github.com/deepseek-ai/DualPipe.

    Examples
    --------
    >>> float(dualpipe_v_bubble_seconds(8, 2.0, 2.0, 2.0, 0.0))
    7.0
    """
    f, b, w, n = forward / 2, input_gradient / 2, weight_gradient / 2, pp - 1
    return np.maximum(n * (f + b - w + 4 * hop), n * (2 * b - w + 6 * hop) - f)
