"""ZeRO++: bytes of weights and gradients in fewer bits, and of those that leave a node."""

from __future__ import annotations

from planner.numeric import Num

QUANTISED_WEIGHT = 1.0
"""Bytes of a weight that is gathered in 8 bit; scales of blocks of 2,048 are left out. [byte]"""

QUANTISED_GRADIENT = 0.5
"""Bytes of a gradient that is reduced in 4 bit. [byte]"""


def regathered_bytes(nbytes: Num, gathers: Num) -> Num:
    r"""Bytes that a pass gathers once more, from the second copy of a node where there is one. [byte]

    .. math:: (g - 1)\,M

    Parameters
    ----------
    nbytes : Num
        All weights of a rank :math:`M`, gathered once: in forward, over all shards. [byte]
    gathers : Num
        Gathers :math:`g` of a pass. [-]

    References
    ----------
    .. [1] G. Wang et al., "ZeRO++," arXiv:2306.10209, 2023, sec. 3.2.

    Examples
    --------
    >>> regathered_bytes(2e9, 2.0)
    2000000000.0
    """
    return (gathers - 1.0) * nbytes


def second_hop_bytes(nbytes: Num, ranks: Num) -> Num:
    r"""Bytes that a rank sends to those of its place on other nodes, summed over its own node before. [byte]

    .. math:: \frac{Q}{G}

    Parameters
    ----------
    nbytes : Num
        Its gradients :math:`Q`, quantised, all of which it sends in its node first. [byte]
    ranks : Num
        Ranks :math:`G` of the group in a node. [-]

    References
    ----------
    .. [1] G. Wang et al., "ZeRO++," arXiv:2306.10209, 2023, sec. 3.3.

    Examples
    --------
    >>> second_hop_bytes(1e9, 8.0)
    125000000.0
    """
    return nbytes / ranks
