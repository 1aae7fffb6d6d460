"""Backward in parts of a causal sequence, one after another: what of it each part repeats."""

from __future__ import annotations

from planner.numeric import Num


def scores_of_parts(parts: Num) -> Num:
    r"""Scores computed in parts whose queries meet all keys up to their end, over those of a square.

    .. math:: \frac{1 + D}{2 D}

    Parameters
    ----------
    parts : Num
        Equal parts :math:`D` of the sequence. [-]

    Returns
    -------
    Num
        Share: 1 for the square, 1/2 for the triangle that a causal kernel computes. [-]

    References
    ----------
    .. [1] Q. Luo et al., "StreamBP," arXiv:2506.03077, 2025, sec. 3.2.2.

    Examples
    --------
    >>> scores_of_parts(1.0), round(scores_of_parts(3.0), 3), round(scores_of_parts(1e9), 3)
    (1.0, 0.667, 0.5)
    """
    return (1.0 + parts) / (2.0 * parts)


def prefix_runs(parts: Num) -> Num:
    r"""Times that keys and values are projected where each part projects all those up to its end. [-]

    .. math:: \frac{1 + D}{2}

    Parameters
    ----------
    parts : Num
        Equal parts :math:`D` of the sequence. [-]

    References
    ----------
    .. [1] github.com/Ledzy/StreamBP, ``streambp/stream_model.py``, ``StreamAttention_v2``.

    Examples
    --------
    >>> prefix_runs(1.0), prefix_runs(3.0)
    (1.0, 2.0)
    """
    return (1.0 + parts) / 2.0
