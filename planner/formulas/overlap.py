"""What is left of a communication after the compute that hides it."""

from __future__ import annotations

from planner.numeric import Num, maximum


def exposed_seconds(communication: Num, window: Num, exposed_share: Num = 0.0) -> Num:
    r"""Seconds of a communication that a window of compute does not hide. [s]

    .. math:: t = \max(f\,c,\; c - w)

    Parameters
    ----------
    communication : Num
        Time :math:`c` of the communication alone. [s]
    window : Num
        Compute :math:`w` that may run beside it. [s]
    exposed_share : Num
        Share :math:`f` that is exposed however long the window: the first and the last part of a chain,
        and what the runtime cannot overlap; 1 where it overlaps nothing. [-]

    References
    ----------
    .. [1] S. Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training,"
       arXiv:2006.15704, 2020, sec. 3.2.3: the last bucket is always exposed.

    Examples
    --------
    >>> float(exposed_seconds(3.0, 2.0)), float(exposed_seconds(3.0, 5.0, 0.25))
    (1.0, 0.75)
    """
    return maximum(exposed_share * communication, communication - window)


def wait_seconds(compute: Num, domains: Num, share: Num) -> Num:
    r"""Seconds that ranks wait for the slowest of them where every layer makes them meet. [s]

    .. math:: t = w\,c \left(1 - \frac{1}{\max(d, 1)}\right)

    Parameters
    ----------
    compute : Num
        Time :math:`c` of the passes on one rank. [s]
    domains : Num
        Fast domains :math:`d` that the ranks span. [-]
    share : Num
        Share :math:`w` that endlessly many domains approach. [-]

    References
    ----------
    .. [1] MosaicML, llm-foundry, ``scripts/train/benchmarking``: the same models on 8, 16, 32 and 64 A100.

    Examples
    --------
    >>> float(wait_seconds(8.0, 4.0, 0.25)), float(wait_seconds(8.0, 0.5, 0.25))
    (1.5, 0.0)
    """
    return share * compute * (1.0 - 1.0 / maximum(domains, 1.0))
