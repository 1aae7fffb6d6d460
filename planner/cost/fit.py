"""Whether a plan fits: the chance that it runs out of memory, and the other way round."""

from __future__ import annotations

import math

import numpy as np

from planner.numeric import Num


def oom_probability(total: Num, capacity: Num, spread: Num) -> Num:
    r"""Probability that a plan predicted to use ``total`` bytes runs out of memory.

    .. math:: p = \frac{1}{1 + e^{-\ln(S / C) / \sigma}}

    Parameters
    ----------
    total, capacity : Num
        Predicted use :math:`S` and what the device has :math:`C`. [byte]
    spread : Num
        Scale :math:`\sigma` of the logarithm of measured over predicted memory. [-]

    Returns
    -------
    Num
        Between 0 and 1; one half where the prediction is the capacity. [-]

    References
    ----------
    .. [1] D. R. Cox, "The regression analysis of binary sequences," J. R. Stat. Soc. B 20(2), 1958,
       doi:10.1111/j.2517-6161.1958.tb00292.x.

    Examples
    --------
    >>> float(oom_probability(80.0, 80.0, 0.025))
    0.5
    """
    distance = np.log(total / capacity) / spread
    return 0.5 * (1 + np.tanh(distance / 2))


def safe_share(probability: float, spread: float) -> float:
    """Share of the capacity that may be predicted for at most this probability of running out.

    Parameters
    ----------
    probability : float
        Accepted chance, between 0 and 1. [-]
    spread : float
        As in `oom_probability`. [-]

    Returns
    -------
    float
        Share of the capacity. [-]

    References
    ----------
    .. [1] D. R. Cox, as in `oom_probability`, solved for the ratio.

    Examples
    --------
    >>> safe_share(0.5, 0.025)
    1.0
    """
    return math.exp(spread * math.log(probability / (1 - probability)))
