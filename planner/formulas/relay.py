"""A buffer that travels from rank to rank, each adding its part before it passes it on."""

from __future__ import annotations

from collections.abc import Sequence

from planner.formulas.collectives import Tier
from planner.formulas.messages import tier_seconds
from planner.formulas.spread import Spread
from planner.numeric import Num, maximum, minimum, sqrt, where

MOST_BLOCKS = 128.0
"""Blocks that a state is cut into at most: the width of a usual key head. [-]"""


def relay_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier], messages: Num = 1.0) -> Num:
    r"""Seconds until the last rank has a buffer that travels through all, in blocks one after the other. [s]

    .. math:: t = \sum_{h=1}^{n-1} \left(\alpha_h + \frac{S}{K B_h}\right)
              + (K-1) \max_h \left(\alpha_h + \frac{S}{K B_h}\right)

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of the buffer. [byte]
    ranks, stride : Num
        Members :math:`n` and the distance between them; one member costs nothing. [-]
    tiers : sequence of Tier
        From the innermost to the outermost: latency and rate of the hops :math:`h` that cross each.
    messages : Num
        Blocks :math:`K` that it travels in; one is a plain relay. [-]

    Notes
    -----
    With :math:`\tau = S/B`, no latency and one kind of hop this is :math:`\tau + (n-2)\tau/K`; the paper
    writes :math:`\tau + (P-1)\tau/K`, one hop more.

    References
    ----------
    .. [1] Y. Chou et al., "ZeCO: Zero Communication Overhead Sequence Parallelism for Linear Attention,"
       arXiv:2507.01004, 2025, sec. 3.2 (All-Scan).
    .. [2] W. Sun et al., "Linear Attention Sequence Parallelism," arXiv:2404.02882, 2024, algorithm 2.

    Examples
    --------
    >>> tiers = [Tier("a", 8, 400e9, 0.0, 400e9), Tier("b", float("inf"), 50e9, 0.0, 50e9)]
    >>> round(float(relay_seconds(4e8, 16.0, 1.0, tiers)), 6)
    0.022
    >>> round(float(relay_seconds(4e8, 16.0, 1.0, tiers, 8.0)), 6)
    0.00975
    """
    fill, slowest = _hops(nbytes / messages, ranks, stride, tiers)
    return fill + (messages - 1.0) * slowest


def pipelined_relay_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds of a relay in the number of blocks that makes it shortest. [s]

    .. math:: K = \sqrt{\frac{\sum_h S / B_h - S / B}{\alpha}}

    with the slowest hop's rate :math:`B` and start :math:`\alpha`, which more blocks pay more often.

    Parameters
    ----------
    nbytes : Num
        Size of the buffer. [byte]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    References
    ----------
    .. [1] Y. Chou et al., arXiv:2507.01004, 2025, sec. 3.2; the number of blocks is derived here.

    Examples
    --------
    >>> tier = Tier("b", float("inf"), 50e9, 5e-6, 50e9)
    >>> round(float(relay_seconds(2.1e6, 256.0, 1.0, [tier])), 5)
    0.01198
    >>> round(float(pipelined_relay_seconds(2.1e6, 256.0, 1.0, [tier])), 5)
    0.00177
    """
    start, latency = _hops(0.0 * nbytes, ranks, stride, tiers)
    whole, slowest = _hops(nbytes, ranks, stride, tiers)
    moved = maximum((whole - start) - (slowest - latency), 0.0)
    # Links that start at once would want blocks without end.
    least = tier_seconds(nbytes, tiers[0]) / MOST_BLOCKS**2
    best = sqrt(moved / (latency + least))
    return relay_seconds(nbytes, ranks, stride, tiers, minimum(maximum(best, 1.0), MOST_BLOCKS))


def _hops(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> tuple[Num, Num]:
    """Return the seconds of all hops of a message, one after the other, and of the slowest hop."""
    total: Num = 0.0
    slowest: Num = 0.0
    below = Spread.of_each(ranks)
    for tier in tiers:
        here = tier.spread(stride, ranks)
        crossing = maximum(below.domains - here.domains, 0.0)
        hop = tier_seconds(nbytes, tier)
        total = total + crossing * hop
        slowest = where(crossing > 0, maximum(slowest, hop), slowest)
        below = here
    return total, slowest
