"""Rounds of a ring of attention: one ring over all ranks, or rings inside fast domains and between them."""

from __future__ import annotations

from planner.numeric import Num, maximum


def flat_ring_seconds(ranks: Num, compute: Num, communication: Num) -> Num:
    r"""Seconds of a ring whose messages travel beside the attention on the part before. [s]

    .. math:: t = (P-1) \max(t_c, t_m) + t_c

    Parameters
    ----------
    ranks : Num
        Members :math:`P`. [-]
    compute, communication : Num
        Attention :math:`t_c` on one part, and its message :math:`t_m` over the slowest hop. [s]

    References
    ----------
    .. [1] MTraining, arXiv:2510.18830, 2025: 31 rounds of 0.98 ms and 0.51 ms on 32 accelerators.

    Examples
    --------
    >>> round(flat_ring_seconds(32, 0.51, 0.98), 2)
    30.89
    """
    return (ranks - 1) * maximum(compute, communication) + compute


def nested_ring_seconds(ranks: Num, members: Num, compute: Num, near_message: Num, far_message: Num) -> Num:
    r"""Seconds of rings inside fast domains, while parts of other domains arrive for the next turn. [s]

    .. math:: t = P \max(t_c, t_i) + \left(\frac{P}{G} - 1\right) \max\left(0, t_o - G \max(t_c, t_i)\right)

    Parameters
    ----------
    ranks : Num
        Members :math:`P`. [-]
    members : Num
        Of these in one domain :math:`G`. [-]
    compute : Num
        Attention :math:`t_c` on one part. [s]
    near_message, far_message : Num
        Message :math:`t_i` inside a domain, and :math:`t_o` between domains. [s]

    References
    ----------
    .. [1] MTraining, arXiv:2510.18830, 2025: 32 rounds of 0.51 ms where the message between nodes hides in a
       whole inner turn.

    Examples
    --------
    >>> round(nested_ring_seconds(32, 8, 0.51, 0.13, 0.98), 2)
    16.32
    """
    turn = maximum(compute, near_message)
    return ranks * turn + (ranks / members - 1) * maximum(0.0 * far_message, far_message - members * turn)
