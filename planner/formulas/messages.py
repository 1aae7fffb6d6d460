"""Messages from one accelerator to another: between stages of a pipeline, and around a ring of attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.formulas.collectives import Tier
from planner.formulas.spread import Spread
from planner.numeric import Num, floor, maximum, minimum, where


def _link_rate(tier: Tier) -> float:
    """Rate of a message between two accelerators; through the host both of them share it. [byte/s]"""
    return tier.bandwidth / 2 if tier.host_staged else min(tier.bandwidth, tier.pair_bandwidth)


def tier_seconds(nbytes: Num, tier: Tier) -> Num:
    r"""Seconds of a message between two accelerators that a tier joins. [s]

    .. math:: t = \alpha + S / B

    Parameters
    ----------
    nbytes : Num
        Size of the message :math:`S`. [byte]
    tier : Tier
        Of latency :math:`\alpha` and, for one pair, rate :math:`B`.

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


def shared_seconds(nbytes: Num, tier: Tier, senders: Num) -> Num:
    r"""Seconds of messages that several accelerators send at once over a tier, to one receiver each. [s]

    .. math:: t = \alpha + S \max(1 / B, s / W)

    Parameters
    ----------
    nbytes : Num
        Size of each message :math:`S`. [byte]
    tier : Tier
        Of latency :math:`\alpha`, rate :math:`B` for one pair and :math:`W` for all, where they share it.
    senders : Num
        Accelerators :math:`s` that send. [-]

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP," Parallel Computing 20(3), 1994, eq. 2,
       doi:10.1016/S0167-8191(06)80021-9; what a link carries is divided among those that use it.

    Examples
    --------
    >>> link = Tier("link", float("inf"), 1e9, 1.0, 8e9, shared=16e9)
    >>> [float(shared_seconds(16e9, link, senders)) for senders in (1.0, 4.0)]
    [3.0, 5.0]
    """
    if not tier.shared:
        return tier_seconds(nbytes, tier)
    return tier.latency + nbytes * maximum(1.0 / tier.pair_bandwidth, senders / tier.shared)


def point_to_point_seconds(nbytes: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    """Seconds of a message to the rank ``stride`` away. [s]

    Parameters
    ----------
    nbytes : Num
        Size of the message. [byte]
    stride : Num
        Distance in ranks; the innermost tier that joins both carries the message. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

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
    r"""Seconds to pass the parts of a buffer from each rank to the next until all have seen them. [s]

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


def routed_shift_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds of a ring of parts where what leaves a fast domain goes over the ports of all its members.

    .. math:: t = (n-1) \max\left(h_i(s),\; 2 h_i\left(s\frac{x-1}{x}\right)
              + h_o\left(\frac{s}{x}\right)\right), \quad s = S / n

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of all parts together. [byte]
    ranks, stride : Num
        Members :math:`n` and the distance between them; :math:`x` of them share a fast domain. [-]
    tiers : sequence of Tier
        From the innermost to the outermost; :math:`h_i` and :math:`h_o` are hops inside and between domains.

    Returns
    -------
    Num
        Elapsed time, that of the plain ring where it is less. [s]

    Notes
    -----
    A part is spread over the members, sent and gathered one after the other; sent piece by piece the three
    overlap, and the time tends to the longest of them.

    References
    ----------
    .. [1] C. Chen et al., "Zeppelin," arXiv:2509.21841, 2025 (the routing layer).

    Examples
    --------
    >>> inner, outer = Tier("a", 8, 400e9, 0.0, 400e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)
    >>> round(float(routed_shift_seconds(16e9, 16.0, 1.0, [inner, outer])), 5)
    0.10312
    >>> round(float(shift_seconds(16e9, 16.0, 1.0, [inner, outer])), 5)
    0.3
    """
    domain = tiers[-2].domain if len(tiers) > 1 else ranks
    near = maximum(minimum(ranks, floor(domain / stride)), 1.0)
    part, hops, inside = nbytes / ranks, ranks - 1.0, maximum(near - 1.0, 1.0)
    plain = shift_seconds(nbytes, ranks, stride, tiers)
    spread = shift_seconds(part * (near - 1.0), near, stride, tiers) / inside
    whole = shift_seconds(part * near, near, stride, tiers) / inside
    far = shift_seconds(nbytes / near, ranks, stride, tiers) / maximum(hops, 1.0)
    routed = hops * maximum(whole, 2.0 * spread + far)
    return where(np.greater(ranks, near), minimum(plain, routed), plain)


def double_ring_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds to pass the parts of a buffer around rings in fast domains, and from ring to ring beside them.

    .. math:: t = \max\left(\frac{n}{w}(w-1)\left(\alpha_i + \frac{S}{n B_i}\right),
              \left(\frac{n}{w}-1\right)\left(\alpha_o + \frac{S}{n B_o}\right)\right)

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of all parts together. [byte]
    ranks, stride : Num
        Members :math:`n` and the distance between them; :math:`w` of them share a fast domain. [-]
    tiers : sequence of Tier
        From the innermost to the outermost: rates :math:`B_i`, :math:`B_o` and latencies of the hops inside
        a ring and between rings.

    Returns
    -------
    Num
        Elapsed time. [s]

    References
    ----------
    .. [1] D. Gu et al., "LoongTrain: Efficient Training of Long-Sequence LLMs with Head-Context Parallelism,"
       arXiv:2406.18485, 2024, sec. 4.3.

    Examples
    --------
    >>> inner, outer = Tier("a", 8, 450e9, 0.0, 450e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)
    >>> round(float(double_ring_seconds(16e9, 16.0, 1.0, [inner, outer])), 4)
    0.0311
    """
    domain = tiers[-2].domain if len(tiers) > 1 else ranks
    near = maximum(minimum(ranks, floor(domain / stride)), 1.0)
    near = where(np.equal(np.mod(ranks, near), 0), near, 1.0)
    rings = ranks / near
    inner = rings * shift_seconds(nbytes / rings, near, stride, tiers)
    outer = shift_seconds(nbytes / near, rings, stride * near, tiers)
    return maximum(inner, outer)
