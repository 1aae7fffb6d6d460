r"""How long the slowest of many workers takes, and what redundancy against it costs.

Symbols: :math:`n` workers, :math:`k` of them waited for, :math:`H_n` the sum of :math:`1/i` to :math:`n`,
:math:`s` stragglers that a code bears.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num

EULER: float = 0.5772156649015329
"""Euler's constant. [-]"""


def harmonic_sum(workers: Num) -> Num:
    r"""Sum of the reciprocals of the first whole numbers.

    .. math:: H_n = \sum_{i=1}^n 1/i = \psi(n + 1) + \gamma

    Parameters
    ----------
    workers : Num
        Numbers :math:`n`; none sum to 0. [-]

    Returns
    -------
    Num
        Their sum. [-]

    References
    ----------
    .. [1] H. A. David, H. N. Nagaraja, "Order Statistics," 3rd ed., Wiley, 2003, doi:10.1002/0471722162.

    Examples
    --------
    >>> round(float(harmonic_sum(16.0)), 3)
    3.381
    """
    from scipy.special import digamma

    found: Num = digamma(np.asarray(workers) + 1.0) + EULER
    return found


def exponential_order_seconds(least: Num, spread: Num, workers: Num, waited: Num) -> Num:
    r"""Expected time until so many of equal workers are done, each a fixed time and an exponential one.

    .. math:: E[T_{(k)}] = t_0 + \mu (H_n - H_{n-k})

    Parameters
    ----------
    least, spread : Num
        The fixed time :math:`t_0`, and the mean of the exponential one :math:`\mu`. [s]
    workers, waited : Num
        Workers :math:`n`, and those that are waited for :math:`k`. [-]

    Returns
    -------
    Num
        Seconds. [s]

    References
    ----------
    .. [1] C. Xu et al., "Dynamic backup workers for parallel machine learning," arXiv:2004.14696, 2020.
    .. [2] H. A. David, H. N. Nagaraja, "Order Statistics," 3rd ed., Wiley, 2003, doi:10.1002/0471722162.

    Examples
    --------
    >>> [round(float(exponential_order_seconds(0.0, 1.0, 16, k)), 3) for k in (16, 15, 14)]
    [3.381, 2.381, 1.881]
    """
    return least + spread * (harmonic_sum(workers) - harmonic_sum(np.asarray(workers) - waited))


def normal_order_seconds(mean: Num, spread: Num, workers: Num, waited: Num) -> Num:
    r"""Expected time until so many of equal workers are done, whose times are normal; Blom's approximation.

    .. math:: E[T_{(k)}] \approx m + \sigma \Phi^{-1}\left(\frac{k - 3/8}{n + 1/4}\right)

    Parameters
    ----------
    mean, spread : Num
        Mean :math:`m` and standard deviation :math:`\sigma` of a worker's time. [s]
    workers, waited : Num
        Workers :math:`n`, and those that are waited for :math:`k`. [-]

    Returns
    -------
    Num
        Seconds. [s]

    References
    ----------
    .. [1] G. Blom, "Statistical Estimates and Transformed Beta-Variables," Wiley, 1958; in H. A. David, H. N.
       Nagaraja, "Order Statistics," 3rd ed., 2003, doi:10.1002/0471722162.

    Examples
    --------
    >>> round(float(normal_order_seconds(0.0, 1.0, 64, 64)), 2)
    2.34
    """
    from scipy.special import ndtri

    found: Num = ndtri((np.asarray(waited) - 0.375) / (np.asarray(workers) + 0.25))
    return mean + spread * found


def coding_load(workers: Num, stragglers: Num) -> Num:
    r"""Share of the batch that each worker computes under a gradient code.

    .. math:: (s + 1) / n

    Parameters
    ----------
    workers, stragglers : Num
        Workers :math:`n`, and those that it bears :math:`s`. [-]

    Returns
    -------
    Num
        Share of the batch. [-]

    References
    ----------
    .. [1] R. Tandon et al., "Gradient Coding," arXiv:1612.03301, 2017, theorem 1.

    Examples
    --------
    >>> coding_load(16, 1)
    0.125
    """
    return (stragglers + 1.0) / workers


def sequential_coding_load(workers: Num, stragglers: Num, burst: Num, rounds: Num) -> Num:
    r"""Share of the batch that each worker computes under a multiplexed sequential gradient code.

    .. math:: \frac{(\lambda + 1)(W - 1 + B)}{n (B + (W - 1)(\lambda + 1))}

    Parameters
    ----------
    workers, stragglers : Num
        Workers :math:`n`, and those that it bears in a round :math:`\lambda`. [-]
    burst, rounds : Num
        Rounds :math:`B` for which a worker stays slow, at most once in a window of :math:`W` rounds. [-]

    Returns
    -------
    Num
        Share of the batch. [-]

    References
    ----------
    .. [1] M. N. Krishnan et al., "Sequential gradient coding for straggler mitigation," arXiv:2211.13802.

    Examples
    --------
    >>> sequential_coding_load(16, 0, 2, 5) * 16
    1.0
    """
    more = stragglers + 1.0
    return more * (rounds - 1.0 + burst) / (workers * (burst + (rounds - 1.0) * more))
