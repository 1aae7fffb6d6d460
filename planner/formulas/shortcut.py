"""Experts on a shortcut: what runs beside their messages."""

from __future__ import annotations

from typing import Final, Literal

from planner.numeric import Num

Tap = Literal["before", "between", "input"]

TAPS: Final[dict[Tap, tuple[int, int]]] = {"before": (1, 0), "between": (1, 1), "input": (2, 1)}
"""Where routed experts read: the result of the layer before, what lies between its attention and its
feed-forward, or its input; each with the attentions and plain feed-forwards beside the messages. [-]"""


def shortcut_window(attention: Num, shared_expert: Num, feed_forward: Num, tap: Tap = "between") -> Num:
    r"""Compute that may run beside a dispatch and a combine of experts on a shortcut.

    .. math:: w = a\,T_a + T_s + f\,T_f

    Parameters
    ----------
    attention, shared_expert, feed_forward : Num
        Time of an attention :math:`T_a`, of the shared expert :math:`T_s` of the experts' own layer, and of
        the plain feed-forward :math:`T_f` of the other one. [s]
    tap : str
        Where routed experts read, as `TAPS`.

    Returns
    -------
    Num
        Window :math:`w`. [s]

    References
    ----------
    .. [1] W. Cai et al., "Shortcut-connected Expert Parallelism for Accelerating Mixture of Experts,"
       arXiv:2404.05019, sec. 3: Pos-1, Pos-2 and Pos-3.
    .. [2] Meituan, "LongCat-Flash Technical Report," arXiv:2509.01322, sec. 2.2: read after the first
       attention, added after the second feed-forward, so that the first one is the shared expert.

    Examples
    --------
    >>> [float(shortcut_window(2.0, 1.0, 4.0, tap)) for tap in ("before", "between", "input")]
    [3.0, 7.0, 9.0]
    """
    attentions, feed_forwards = TAPS[tap]
    return attentions * attention + shared_expert + feed_forwards * feed_forward
