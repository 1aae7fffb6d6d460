"""Whether a plan fits: the chance that it runs out of memory, and the other way round."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from planner.numeric import Num

STRAY_SHARE = 0.05
"""Share of runs whose memory is off by more than counting explains: fragments, settings not stated. [-]

Set wide on purpose. Of 3,291 public runs whose outcome is known and that were predicted to need less than
the device has six ran out: with `STRAY_SPREAD` that is likeliest at 0.01 and 0.14, and 11 times less likely
at 0.05 and 0.13. But tables mostly hold runs that went well, and a plan that is said to fit and does not is
the worst answer.
"""

STRAY_SPREAD = 0.13
"""Scale of the logarithm of measured over predicted memory of such runs. [-]"""


def oom_probability(total: Num, capacity: Num, spread: Num) -> Num:
    r"""Probability that a plan predicted to use ``total`` bytes runs out of memory.

    .. math::
       p = \frac{1 - \epsilon}{1 + e^{-\ln(S / C) / \sigma}}
       + \frac{\epsilon}{1 + e^{-\ln(S / C) / \sigma_\epsilon}}

    Parameters
    ----------
    total, capacity : Num
        Predicted use :math:`S` and what the device has :math:`C`. [byte]
    spread : Num
        Scale :math:`\sigma` of the logarithm of measured over predicted memory; of stray runs, a share
        :math:`\epsilon`, it is :math:`\sigma_\epsilon`. [-]

    Returns
    -------
    Num
        Between 0 and 1; one half where the prediction is the capacity. [-]

    References
    ----------
    .. [1] D. R. Cox, "The regression analysis of binary sequences," J. R. Stat. Soc. B 20(2), 1958,
       doi:10.1111/j.2517-6161.1958.tb00292.x.
    .. [2] J. W. Tukey, "A survey of sampling from contaminated distributions," in Contributions to
       Probability and Statistics, Stanford University Press, 1960: a few draws of a wider spread.

    Examples
    --------
    >>> float(oom_probability(80.0, 80.0, 0.025))
    0.5
    """
    usual = overflow_probability(total, capacity, spread)
    stray = overflow_probability(total, capacity, STRAY_SPREAD)
    return (1 - STRAY_SHARE) * usual + STRAY_SHARE * stray


def overflow_probability(total: Num, capacity: Num, spread: Num) -> Num:
    r"""Probability that bytes predicted to be ``total`` are more than ``capacity``, of one spread alone.

    .. math:: p = \frac{1}{1 + e^{-\ln(S / C) / \sigma}}

    Parameters
    ----------
    total, capacity : Num
        Predicted use :math:`S` and what there is, :math:`C`. [byte]
    spread : Num
        Scale :math:`\sigma` of the logarithm of measured over predicted memory. [-]

    Returns
    -------
    Num
        Between 0 and 1. [-]

    References
    ----------
    .. [1] D. R. Cox, as in `oom_probability`.

    Examples
    --------
    >>> float(overflow_probability(80.0, 80.0, 0.025))
    0.5
    """
    return 0.5 * (1 + np.tanh(np.log(total / capacity) / spread / 2))


@lru_cache(maxsize=4096)
def safe_share(probability: float, spread: float) -> float:
    """Share of the capacity that may be predicted for at most this probability of running out. [-]

    Parameters
    ----------
    probability : float
        Accepted chance, between 0 and 1. [-]
    spread : float
        As in `oom_probability`. [-]

    References
    ----------
    .. [1] D. R. Cox, as in `oom_probability`, solved for the ratio by bisection between the answers of the
       two spreads.

    Examples
    --------
    >>> safe_share(0.5, 0.025)
    1.0
    """
    odds = math.log(probability / (1 - probability))
    low, high = sorted((spread * odds, STRAY_SPREAD * odds))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if oom_probability(math.exp(middle), 1.0, spread) > probability:
            high = middle
        else:
            low = middle
    return math.exp(low)


def memory_band(spread: float) -> float:
    """Share by which 90% of runs use more or less memory than predicted, at most.

    Parameters
    ----------
    spread : float
        As in `oom_probability`. [-]

    Returns
    -------
    float
        Of the prediction; the further side, since the spread is that of a logarithm. [-]

    References
    ----------
    .. [1] J. W. Tukey, as in `oom_probability`: the middle nine tenths of the same two spreads.

    Examples
    --------
    >>> round(memory_band(0.025), 3)
    0.087
    """
    return safe_share(0.95, spread) - 1


BISECTIONS = 50
"""Halvings until the share is exact to the last digits. [-]"""
