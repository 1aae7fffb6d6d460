"""Sizes of a mesh in which some ranks share heads and others the sequence."""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def mesh_head_ranks(cp: Num, heads: Num, kv_heads: Num, near: Num) -> Num:
    r"""Ranks of a fast domain that share heads: as many as heads and domain allow.

    .. math:: u = \gcd(P, a, a_{kv}), \text{ or where that is more than } n,\;
       \gcd(u, 2^{\lfloor \log_2 n \rfloor})

    Parameters
    ----------
    cp : Num
        Ranks :math:`P` that share a sequence. [-]
    heads, kv_heads : Num
        Query heads :math:`a` and key/value heads :math:`a_{kv}` of a rank, whole numbers. [-]
    near : Num
        Of those ranks, the consecutive ones :math:`n` that fast links join, at least one. [-]

    Returns
    -------
    Num
        Ranks :math:`u`; the ring between groups has :math:`P/u`. [-]

    References
    ----------
    .. [1] J. Fang, S. Zhao, "USP: A Unified Sequence Parallelism Approach for Long Context Generative AI,"
       arXiv:2405.07719, 2024, sec. 3: heads over the links of high bandwidth, the ring over the others.

    Examples
    --------
    >>> float(mesh_head_ranks(16, 32, 8, 8)), float(mesh_head_ranks(16, 32, 8, 4))
    (8.0, 4.0)
    """
    whole = [np.asarray(number).astype(np.int64) for number in (cp, heads, kv_heads)]
    found = np.gcd(whole[0], np.gcd(whole[1], whole[2]))
    power = np.exp2(np.floor(np.log2(np.maximum(near, 1.0)))).astype(np.int64)
    return np.where(found <= near, found, np.gcd(found, power)).astype(float)[()]
