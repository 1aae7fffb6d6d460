"""Tokens on their way to their experts by fused kernels: each copy over the links that it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from planner.formulas.collectives import Tier, group_bandwidth
from planner.formulas.spread import Spread
from planner.numeric import Num, maximum, power


def distinct_domains(domains: Num, copies: Num) -> Num:
    r"""Domains that the copies of one token reach in the mean, where each goes to a random one.

    .. math:: E = D \left[1 - \left(1 - \frac{1}{D}\right)^k\right]

    Parameters
    ----------
    domains : Num
        Domains :math:`D` that the group spans. [-]
    copies : Num
        Copies :math:`k` of the token; no whole number where it is a mean. [-]

    Returns
    -------
    Num
        Between 1 and the smaller of the two. [-]

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, 2024, sec. 3.2.2: a token crosses
       the network once for each node.

    Examples
    --------
    >>> float(distinct_domains(1.0, 8)), round(float(distinct_domains(4.0, 8)), 3)
    (1.0, 3.6)
    """
    if not isinstance(copies, int):
        return domains * (1.0 - power(1.0 - 1.0 / domains, copies))
    missed: Num = 1.0
    for _ in range(copies):
        missed = missed * (1.0 - 1.0 / domains)
    return domains * (1.0 - missed)


def neighbouring_ranks(copies: Num, experts: Num, ranks: Num) -> Num:
    """Ranks that hold the experts of a token where these are neighbours in the order of ranks. [-]

    Parameters
    ----------
    copies, experts, ranks : Num
        Experts of a token, experts of the layer, and ranks among which these are split. [-]

    Examples
    --------
    >>> float(neighbouring_ranks(8, 256, 64)), float(neighbouring_ranks(8, 128, 8))
    (2.0, 1.0)
    """
    return maximum(1.0, copies * ranks / experts)


def dispatch_seconds(nbytes: Num, copies: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds to send each token to the ranks of its experts, once to each outer domain, by fused kernels.

    .. math:: t = \sum_k h_k \alpha_k + \max_k \frac{S\, c_k}{B_k} \frac{i_k - i_{k-1}}{i_k}

    with :math:`c_k` copies that a token needs at that tier: all inside the innermost, one for each domain
    below further out. What comes from outside is forwarded inside, so that a tier's links carry the copies
    for all of its members, whoever sent them.

    Parameters
    ----------
    nbytes : Num
        Tokens of one rank, one copy :math:`S`. [byte]
    copies : Num
        Experts of a token. [-]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    Returns
    -------
    Num
        Elapsed time; the same for the way back. [s]

    Notes
    -----
    An all-to-all of a communication library sends all copies by themselves: `all_to_all_seconds` of as many
    times the bytes. DeepEP sends a rank one copy for all of its experts, at 0.6 to 0.9 of nccl-tests' rate;
    together these are within two fifths of all copies at that rate, which is what is counted.

    References
    ----------
    .. [1] DeepSeek-AI, "DeepSeek-V3 Technical Report," arXiv:2412.19437, 2024, sec. 3.2.2: over InfiniBand
       to each node once, then forwarded over NVLink.

    Examples
    --------
    Two experts of a token among four ranks on one link: three quarters of two copies travel.

    >>> link = Tier("nvlink", 8, 100e9, 0.0, 100e9)
    >>> float(dispatch_seconds(100e9, 2, 4.0, 1.0, [link]))
    1.5
    """
    return _carried_seconds(nbytes, copies, distinct_domains, ranks, stride, tiers)


def neighbours_seconds(nbytes: Num, copies: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    r"""Seconds of a fused dispatch where a token's experts are neighbours, on as few ranks as can be.

    .. math:: c_k = \max\left(1, \frac{c\,D_k}{P}\right)

    of a token's copies :math:`c` for its holders reach each tier, which :math:`P` ranks span in :math:`D_k`
    domains.

    Parameters
    ----------
    nbytes : Num
        Tokens of one rank, one copy. [byte]
    copies : Num
        Ranks that hold the experts of a token (`neighbouring_ranks`), each of which gets one. [-]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    Returns
    -------
    Num
        Elapsed time; the same for the way back. [s]

    Examples
    --------
    Two ranks of eight in nodes of four hold a token's experts: half of all tokens cross the network.

    >>> link, network = Tier("nvlink", 4, 100e9, 0.0, 100e9), Tier("ib", float("inf"), 10e9, 0.0, 10e9)
    >>> float(neighbours_seconds(10e9, 2.0, 8.0, 1.0, [link, network]))
    0.5
    """
    return _carried_seconds(
        nbytes, copies, lambda domains, sent: maximum(1.0, sent * domains / ranks), ranks, stride, tiers
    )


def _carried_seconds(
    nbytes: Num,
    copies: Num,
    reached: Callable[[Num, Num], Num],
    ranks: Num,
    stride: Num,
    tiers: Sequence[Tier],
) -> Num:
    """Seconds of the slowest tier, whose links carry a copy for each domain below that is ``reached``. [s]"""
    slowest: Num = 0.0
    latency: Num = 0.0
    below = Spread.of_each(ranks)
    for depth, tier in enumerate(tiers):
        here = tier.spread(stride, ranks)
        inside = here.largest
        needed = 1.0 * copies if depth == 0 else reached(below.domains, copies)
        leaving = needed * (inside - below.fewest) / inside
        slowest = np.maximum(slowest, leaving / group_bandwidth(tier, inside / below.fewest))
        latency = latency + (below.domains / here.domains - 1.0) * tier.latency
        below = here
    return latency + nbytes * slowest
