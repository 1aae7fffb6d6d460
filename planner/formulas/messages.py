"""Messages from one accelerator to another: between stages of a pipeline, and around a ring of attention."""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.collectives import Tier
from planner.formulas.spread import Spread
from planner.numeric import Num, maximum, where


def _link_rate(tier: Tier) -> float:
    """Rate of a message between two accelerators; through the host both of them share it. [byte/s]"""
    return tier.bandwidth / 2 if tier.host_staged else min(tier.bandwidth, tier.pair_bandwidth)


def tier_seconds(nbytes: Num, tier: Tier) -> Num:
    r"""Seconds of a message between two accelerators that a tier joins.

    .. math:: t = \alpha + S / B

    Parameters
    ----------
    nbytes : Num
        Size of the message :math:`S`. [byte]
    tier : Tier
        Of latency :math:`\alpha` and, for one pair, rate :math:`B`.

    Returns
    -------
    Num
        Elapsed time. [s]

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP," Parallel Computing 20(3), 1994, eq. 2,
       doi:10.1016/S0167-8191(06)80021-9.

    Examples
    --------
    >>> tier_seconds(64e9, Tier("xgmi", 8, 448e9, 1.0, 64e9))
    2.0
    """
    return tier.latency + nbytes / _link_rate(tier)


def point_to_point_seconds(nbytes: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    """Seconds of a message to the rank ``stride`` away.

    Parameters
    ----------
    nbytes : Num
        Size of the message. [byte]
    stride : Num
        Distance in ranks; the innermost tier that joins both carries the message. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    Returns
    -------
    Num
        Elapsed time. [s]

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP," Parallel Computing 20(3), 1994, eq. 2,
       doi:10.1016/S0167-8191(06)80021-9.

    Examples
    --------
    >>> inner, outer = Tier("a", 8, 450e9, 0.0, 450e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)
    >>> float(point_to_point_seconds(50e9, 8, [inner, outer]))
    1.0
    """
    seconds: Num = 0.0
    for tier in reversed(tiers):
        seconds = where(stride < tier.domain, tier_seconds(nbytes, tier), seconds)
    return seconds


def shift_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds to pass the parts of a buffer from each rank to the next until all have seen them.

    .. math:: t = (n-1) \left(\alpha + \frac{S}{n B}\right)

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of all parts together. [byte]
    ranks, stride : Num
        Members :math:`n` and the distance between them; one member costs nothing. [-]
    tiers : sequence of Tier
        From the innermost to the outermost; the slowest that some hop crosses has latency :math:`\alpha`
        and, for one rank, rate :math:`B`.

    Returns
    -------
    Num
        Elapsed time. [s]

    Notes
    -----
    Messages of the attention itself, not a library's ring: a rank that leaves its domain has its own port
    alone, where a library would send over the ports of all members.

    References
    ----------
    .. [1] H. Liu, M. Zaharia, P. Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite
       Context," arXiv:2310.01889, 2023, sec. 3.

    Examples
    --------
    >>> inner, outer = Tier("a", 8, 450e9, 0.0, 450e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)
    >>> float(shift_seconds(16e9, 16, 1, [inner, outer])), float(shift_seconds(16e9, 8, 8, [inner, outer]))
    (0.3, 0.28)
    """
    latency: Num = 0.0
    slowest: Num = 0.0
    below = Spread.of_each(ranks)
    for tier in tiers:
        here = tier.spread(stride, ranks)
        crossing = here.joins(below)
        slowest = where(crossing, maximum(slowest, 1.0 / _link_rate(tier)), slowest)
        latency = where(crossing, maximum(latency, tier.latency), latency)
        below = here
    return (ranks - 1) * (latency + nbytes / ranks * slowest)
