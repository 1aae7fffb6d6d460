r"""What failures and checkpoints take from a training: how often to save, and how much longer it lasts.

Symbols: :math:`M` mean time between failures of the whole job, :math:`\delta` time for which training stops
to save a checkpoint, :math:`\tau` time of training between checkpoints, :math:`R` time from a failure until
training goes on. Failures come at random, equally likely at any time.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def job_mtbf_seconds(device_mtbf: Num, devices: Num) -> Num:
    r"""Mean time between failures of a job, any of whose devices stops it. [s]

    .. math:: M = M_1 / n

    Parameters
    ----------
    device_mtbf : Num
        Mean time between the failures :math:`M_1` that one device and its share of the node cause. [s]
    devices : Num
        Devices :math:`n`. [-]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, doi:10.1016/j.future.2004.11.016.

    Examples
    --------
    >>> job_mtbf_seconds(3600.0, 8)
    450.0
    """
    return device_mtbf / devices


def checkpoint_interval_seconds(save: Num, mtbf: Num) -> Num:
    r"""Time of training between checkpoints that makes a job end soonest. [s]

    .. math::
        \tau = \sqrt{2 \delta M} \left(1 + \frac{1}{3} \sqrt{\frac{\delta}{2M}} + \frac{\delta}{18 M}\right)
        - \delta, \quad \tau = M \text{ where } \delta \ge 2M

    Parameters
    ----------
    save : Num
        Time :math:`\delta` for which training stops to save. [s]
    mtbf : Num
        Mean time between failures :math:`M` of the job. [s]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, its solution of high order, doi:10.1016/j.future.2004.11.016.
    .. [2] J. W. Young, "A first order approximation to the optimum checkpoint interval," Communications of
       the ACM 17(9), 1974, doi:10.1145/361147.361115 (the first term).

    Examples
    --------
    >>> round(float(checkpoint_interval_seconds(60.0, 86400.0)))
    3180
    """
    share = save / (2.0 * mtbf)
    near = np.sqrt(2.0 * save * mtbf) * (1.0 + np.sqrt(share) / 3.0 + share / 9.0) - save
    return np.where(share < 1.0, near, mtbf)


def failure_slowdown(interval: Num, save: Num, restart: Num, mtbf: Num) -> Num:
    r"""Expected time of a job over that of its training alone.

    .. math:: \frac{M e^{R/M} \left(e^{(\tau + \delta)/M} - 1\right)}{\tau}

    Parameters
    ----------
    interval : Num
        Time of training :math:`\tau` between checkpoints. [s]
    save : Num
        Time :math:`\delta` for which training stops to save. [s]
    restart : Num
        Time :math:`R` from a failure until training goes on. [s]
    mtbf : Num
        Mean time between failures :math:`M` of the job. [s]

    Returns
    -------
    Num
        At least 1. [-]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, its complete model, doi:10.1016/j.future.2004.11.016.

    Examples
    --------
    >>> round(float(failure_slowdown(3180.0, 60.0, 600.0, 86400.0)), 4)
    1.0454
    """
    return mtbf * np.exp(restart / mtbf) * np.expm1((interval + save) / mtbf) / interval
