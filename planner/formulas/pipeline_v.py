r"""Bubbles of schedules whose chunks lie in a V.

The symbols are those of `planner.formulas.pipeline`; small letters are times of one chunk, half a slice.
Every form is the largest of the critical paths that bind for some pass times.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def v_fill_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num
) -> Num:
    r"""Time of the first micro-batch down and up a V, less what the others put into it.

    .. math:: 2n(f + b) - 2f\min(m-1, n) - 2w\min((m-1-n)^+, n), \quad n = p - 1

    Parameters
    ----------
    pp, microbatches : Num
        :math:`p` and :math:`m`. [-]
    forward, input_gradient, weight_gradient : Num
        :math:`F`, :math:`B`, :math:`W` of a whole slice, two chunks. [s]

    Returns
    -------
    Num
        Least bubble of few micro-batches in a V. [s]

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6 (the V).

    Examples
    --------
    >>> float(v_fill_seconds(8, 8, 2.0, 2.0, 2.0))
    14.0
    """
    n = pp - 1
    filled = np.minimum(np.maximum(0.0, microbatches - 1 - n), n) * weight_gradient
    return n * (forward + input_gradient) - np.minimum(microbatches - 1, n) * forward - filled


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
    Exact where :math:`m \ge 2p - 1` and :math:`8c \le w \le \min(f, b)`. With fewer micro-batches
    :math:`2n(f + w)` becomes :math:`2f\min(m-1, n) + 2w(m-1-n)^+`.

    References
    ----------
    .. [1] P. Qi et al., "Zero Bubble Pipeline Parallelism," arXiv:2401.10241, sec. 6.

    Examples
    --------
    >>> float(zb_v_span_bubble_seconds(8, 16, 2.0, 2.0, 2.0, 0.0))
    0.0
    """
    f, b, w, n = forward / 2, input_gradient / 2, weight_gradient / 2, pp - 1
    k = np.maximum(0.0, pp - 2)
    fill = v_fill_seconds(pp, microbatches, forward, input_gradient, weight_gradient)
    fill = fill + 4 * n * hop + k * np.maximum(0.0, f - b)
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
    f, b, n, k = forward / 2, input_gradient / 2, pp - 1, np.maximum(0.0, pp - 2)
    span = zb_v_span_bubble_seconds(pp, microbatches, forward, input_gradient, weight_gradient, hop)
    down = n * (b + 3 * hop) + k * np.maximum(0.0, f - b)
    up = n * (f + hop) + k * (f - b)
    return np.maximum(span, np.maximum(down, up) + 2 * k * hop)


def v_zb_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-ZB.

    .. math:: \max\{n(\max(f, b) + b - w + 4c),\; 2n(f + b) - \min(m-1, n)(f + b + w)\}, \quad n = p - 1

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

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4.

    Examples
    --------
    >>> float(v_zb_bubble_seconds(8, 16, 2.0, 2.0, 2.0, 0.0))
    7.0
    """
    n, path = pp - 1, forward + input_gradient
    fill = n * path - np.minimum(microbatches - 1, n) * (path + weight_gradient) / 2
    longer = np.maximum(forward, input_gradient)
    return np.maximum(n * ((longer + input_gradient - weight_gradient) / 2 + 4 * hop), fill)


def v_half_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-Half, to about one chunk pass.

    .. math::
       \max\{(p+e)f + (3p-3)b,\; (2p + e')f + (2p - 4 + e')b\} - (\lfloor 3p/4 \rfloor + 1 + e')w
       + (5.5p - 4)c + (m - \lfloor p/2 \rfloor - 1)^+ \max(0,\; 2|b - f| + 2c - w)

    with :math:`e = \pm 1` and :math:`e' = 1, 0` for even and odd :math:`p`.

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
    The last term is what every micro-batch waits where :math:`w + 2f < 2b` or :math:`w + 2b < 2f`. Few
    micro-batches take at least the fill of the V.

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4 and app. D.

    Examples
    --------
    >>> float(v_half_bubble_seconds(8, 24, 2.0, 2.0, 2.0, 0.0))
    22.0
    """
    f, b, w, even = forward / 2, input_gradient / 2, weight_gradient / 2, 1 - np.mod(pp, 2)
    slow_backward = (pp - 1 + 2 * even) * f + (3 * pp - 3) * b
    slow_forward = (2 * pp + even) * f + (2 * pp - 4 + even) * b
    hidden = (np.floor(0.75 * pp) + 1 + even) * w
    stall = np.maximum(0.0, 2 * np.abs(b - f) + 2 * hop - w)
    late = np.maximum(0.0, microbatches - np.floor(pp / 2) - 1)
    bubble: Num = np.maximum(slow_backward, slow_forward) - hidden + (5.5 * pp - 4) * hop + late * stall
    fill = v_fill_seconds(pp, microbatches, forward, input_gradient, weight_gradient)
    return np.maximum(bubble * np.minimum(1.0, pp - 1), fill)


def v_min_bubble_seconds(
    pp: Num, microbatches: Num, forward: Num, input_gradient: Num, weight_gradient: Num, hop: Num
) -> Num:
    r"""Bubble of V-Min, to about one chunk pass; unequal passes and messages cost every micro-batch.

    .. math::
       m\,[\,4x - 2y - 2w + (6 - 2/k)c\,] + 2py + (2p-6)x + w + 2z + (4p - 10)c, \quad
       x = \max(f, b),\; y = \min(f, b),\; k = \lfloor p/3 \rfloor

    where :math:`z = 2y - x` if 3 divides :math:`p`, else 0.

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

    References
    ----------
    .. [1] P. Qi et al., "Pipeline Parallelism with Controllable Memory," arXiv:2405.15362, sec. 4 and app. D.

    Examples
    --------
    >>> float(v_min_bubble_seconds(8, 24, 2.0, 2.0, 2.0, 0.0))
    27.0
    """
    x, y = np.maximum(forward, input_gradient) / 2, np.minimum(forward, input_gradient) / 2
    w, k = weight_gradient / 2, np.maximum(1.0, np.floor(pp / 3))
    triple = np.maximum(0.0, 1 - np.mod(pp, 3))
    steady = np.maximum(0.0, 4 * x - 2 * y - 2 * w + (6 - 2 / k) * hop)
    ends = 2 * pp * y + (2 * pp - 6) * x + w + triple * np.maximum(y, 4 * y - 2 * x)
    bubble: Num = microbatches * steady + ends + np.maximum(0.0, 4 * pp - 10) * hop
    fill = v_fill_seconds(pp, microbatches, forward, input_gradient, weight_gradient)
    return np.maximum(bubble * np.minimum(1.0, pp - 1), fill)


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
