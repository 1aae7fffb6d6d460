"""Bubbles of schedules that send activations to the host.

Copies are hidden where the link is fast enough; what they expose otherwise only a played step tells.
"""

from __future__ import annotations

import numpy as np

from planner.formulas.pipeline import Pipe
from planner.numeric import Num


def group_interleaved_bubble_seconds(pipe: Pipe, per_round: Num) -> Num:
    r"""Bubble where groups of :math:`g` micro-batches take turns in a rank's chunks, backward split. [s]

    .. math:: (p-1)(f + b + 2c) + (v-1)\{[p(f+c) - gf]^+ + [p(b+c) - g(b+w)]^+\}

    Parameters
    ----------
    per_round : Num
        Micro-batches of a group, :math:`\lceil p/2 \rceil \le g \le p`. [-]

    Notes
    -----
    A micro-batch needs :math:`p(f + c)` to come around to a rank's next chunk, while the rank runs the
    :math:`g` of its group. Table 1 has :math:`g = p` and, for even :math:`p`, :math:`g = p/2`, with
    :math:`c = 0`; one rank has no turns. Exact where :math:`p(\max(f, b) + c) \le g(f + b + w)`.

    References
    ----------
    .. [1] X. Wan et al., "PipeOffload: Improving Scalability of Pipeline Parallelism with Memory
       Optimization," arXiv:2503.01328, Table 1 (GIS, GIS-H).

    Examples
    --------
    >>> float(group_interleaved_bubble_seconds(Pipe(8, 2, 16, 2.0, 2.0, 2.0), 4))
    18.0
    """
    pp, c, (f, b, w) = pipe.pp, pipe.c, pipe.chunk
    down = np.maximum(0.0, pp * (f + c) - per_round * f)
    up = np.maximum(0.0, pp * (b + c) - per_round * (b + w))
    bubble: Num = (pp - 1) * (f + b + 2 * c) + np.minimum(1.0, pp - 1) * (pipe.vpp - 1) * (down + up)
    return bubble


def falling_windows_seconds(first: Num, fall: Num, vpp: Num) -> Num:
    r"""Idle time in windows that fill up evenly, one between each chunk of a rank and its next. [s]

    .. math:: \sum_{n=1}^{v-1} (a - n\,d)^+

    Parameters
    ----------
    first : Num
        Idle time of an empty window, :math:`a`. [s]
    fall : Num
        By how much each window has less, :math:`d > 0`. [s]
    vpp : Num
        :math:`v`. [-]

    References
    ----------
    .. [1] Sum of an arithmetic series, up to its last positive term.

    Examples
    --------
    >>> float(falling_windows_seconds(8.0, 3.0, 5))
    7.0
    """
    count = np.minimum(np.maximum(np.floor(first / fall), 0.0), vpp - 1)
    idle: Num = count * first - fall * (count * (count + 1) / 2)
    return idle


def uniform_interleaved_bubble_seconds(pipe: Pipe, lead: Num) -> Num:
    r"""Bubble where every micro-batch enters one beat of :math:`v` after the last; all live alike. [s]

    .. math::
       (p-1)(f + b + 2c) + S(x, kf) + S(y - vkf, k(b + w)) + S(x - vk(b+w), kf) + S(y, k(b + w)), \quad
       x = p(f + c),\; y = p(b + c),\; k = \frac{\ell}{v(v-1)}

    Parameters
    ----------
    lead : Num
        Beats from a micro-batch's first chunk on a rank to its last, :math:`\ell`. [-]

    Notes
    -----
    To about two chunk passes, for :math:`v \ge 2`. :math:`S(a, d)` is `falling_windows_seconds`. While the
    pipeline fills, window :math:`n` has :math:`n` of :math:`v` forwards, then all forwards and :math:`n` of
    :math:`v` backwards; the other two sums are the mirror image. The paper says no more than: less than
    :math:`(p-1)(F + B + W)`.

    References
    ----------
    .. [1] X. Wan et al., "PipeOffload: Improving Scalability of Pipeline Parallelism with Memory
       Optimization," arXiv:2503.01328, Table 1 (PO-H, PO-F: the bound).

    Examples
    --------
    >>> round(float(uniform_interleaved_bubble_seconds(Pipe(8, 5, 48, 5.0, 5.0, 5.0), 16)), 9)
    57.2
    """
    pp, vpp, c, (f, b, w) = pipe.pp, pipe.vpp, pipe.c, pipe.chunk
    stride = np.maximum(lead, 1.0) / np.maximum(vpp - 1.0, 1.0)
    down, up = pp * (f + c), pp * (b + c)
    ahead, behind = stride * f, stride * (b + w)
    fill = falling_windows_seconds(down, ahead / vpp, vpp)
    turn = falling_windows_seconds(up - ahead, behind / vpp, vpp)
    late = falling_windows_seconds(down - behind, ahead / vpp, vpp)
    drain = falling_windows_seconds(up, behind / vpp, vpp)
    return (pp - 1) * (f + b + 2 * c) + np.minimum(1.0, pp - 1) * (fill + turn + late + drain)
