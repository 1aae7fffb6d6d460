"""Slow start of a library's rings inside a scale-up domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.formulas.collectives import PROTOCOL_LATENCY, Tier, group_bandwidth, ring_seconds
from planner.numeric import Num

LARGE_BYTES = 2.0**29
"""Buffer at which the rate of a tier is measured. [byte]"""


def started_ring_seconds(
    nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier], passes: Num = 1.0
) -> Num:
    r"""Seconds of ring passes that follow one another in one collective, with their slow start. [s]

    .. math:: t = 0.18\, p (n-1) \alpha + x + \sqrt{\rho x}, \quad
              x = p \frac{S}{S_0} \left(\sqrt{\frac{\rho}{4} + t_0} - \sqrt{\frac{\rho}{4}}\right)^2, \quad
              t_0 = \frac{n-1}{n} \frac{S_0}{B}

    so that one pass over :math:`S_0` = 512 MiB takes :math:`t_0` and its hops. Small messages have the hops
    of protocol LL. A ring that leaves the innermost tier, or whose ramp :math:`\rho` is not known, is that of
    `ring_seconds`.

    Parameters
    ----------
    nbytes : Num
        Size :math:`S` of the gathered result, or of the input to be reduced. [byte]
    ranks, stride : Num
        Members :math:`n` and the distance between them; one member costs nothing. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.
    passes : Num
        Passes :math:`p`: two for an all-reduce, else one. [-]

    References
    ----------
    .. [1] NVIDIA aiconfigurator, commit 095f58a, systems/data, nccl-tests tables of 2, 4 and 8 ranks.
    .. [2] Z. Hu et al., "Demystifying NCCL," arXiv:2507.04786, 2025, sec. III (Simple, LL, LL128).

    Examples
    --------
    >>> link = Tier("nvlink", 8, 2**30 * 7 / 8, 0.0, 2**30 * 7 / 8, ramp=5e-5)
    >>> [round(1e3 * float(started_ring_seconds(2.0**power, 8, 1, [link])), 3) for power in (29, 23)]
    [500.0, 8.357]
    """
    line = passes * ring_seconds(nbytes, ranks, stride, tiers)
    tier = tiers[0]
    if not tier.ramp:
        return line
    large = (ranks - 1) / ranks * LARGE_BYTES / group_bandwidth(tier, ranks)
    root = np.sqrt(tier.ramp / 4 + large) - np.sqrt(tier.ramp / 4)
    wire = passes * nbytes * (root * root / LARGE_BYTES)
    hops = passes * (ranks - 1) * (PROTOCOL_LATENCY[1] * tier.latency)
    leaves = np.greater(tier.spread(stride, ranks).domains, 1.0)
    return np.where(leaves, line, hops + wire + np.sqrt(tier.ramp * wire))


def all_reduce_seconds(nbytes: Num, ranks: Num, stride: Num, tiers: Sequence[Tier]) -> Num:
    """Seconds of an all-reduce: a reduce-scatter and an all-gather that start together. [s]

    Parameters
    ----------
    nbytes : Num
        Size of the reduced buffer. [byte]
    ranks, stride : Num
        Members and the distance between them. [-]
    tiers : sequence of Tier
        From the innermost to the outermost.

    References
    ----------
    .. [1] P. Patarasuk, X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations,"
       J. Parallel Distrib. Comput. 69(2), 2009, sec. 3, doi:10.1016/j.jpdc.2008.09.002.

    Examples
    --------
    >>> link = Tier("nvlink", 8, 450e9, 6e-6, 450e9)
    >>> round(float(all_reduce_seconds(1e9, 8, 1, [link])), 6)
    0.003973
    """
    return started_ring_seconds(nbytes, ranks, stride, tiers, 2.0)
