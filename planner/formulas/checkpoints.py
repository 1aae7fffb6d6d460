r"""Where checkpoints are kept, what training waits for them, and what failures then cost.

Symbols: :math:`M` mean time between failures of the job, :math:`q` share of them that a near copy cures,
:math:`\delta_1, \tau_1, R_1` what training waits for a near copy, the training between two, and the time from
such a failure until training goes on; :math:`\delta_2, \tau_2, R_2` the same of storage.
"""

from __future__ import annotations

import numpy as np

from planner.formulas.failures import failure_slowdown
from planner.numeric import Num


def best_interval_seconds(save: Num, mtbf: Num) -> Num:
    r"""Time of training between checkpoints that makes a job end soonest, for failures at random. [s]

    .. math:: \tau = M \left(1 + W_0\left(-e^{-1 - \delta / M}\right)\right)

    It is where the derivative of `failure_slowdown` is none, with :math:`W_0` Lambert's function.

    Parameters
    ----------
    save, mtbf : Num
        Time :math:`\delta` for which training stops to save, and between failures :math:`M`. [s]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, doi:10.1016/j.future.2004.11.016: its complete model, of
       which this is the exact minimum.

    Examples
    --------
    >>> round(float(best_interval_seconds(60.0, 54 * 24 * 3600.0 / 419)))
    1116
    """
    from scipy.special import lambertw

    branch: Num = np.real(lambertw(-np.exp(-1.0 - save / mtbf)))
    return mtbf * (1.0 + branch)


def restart_share(restart: Num, mtbf: Num) -> Num:
    r"""Share of a job's time that passes between a failure and training, restarts that fail too included. [-]

    .. math:: 1 - e^{-R / M}

    Parameters
    ----------
    restart, mtbf : Num
        Time :math:`R` from a failure until training goes on, and between failures :math:`M`. [s]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, doi:10.1016/j.future.2004.11.016: a failure each :math:`M`,
       after which :math:`\int_0^R e^{-t/M} dt` pass in restarts.

    Examples
    --------
    >>> round(float(restart_share(600.0, 86400.0)), 5)
    0.00692
    """
    return -np.expm1(-restart / mtbf)


def stall_seconds(nbytes: Num, bandwidth: Num, unchanged: Num) -> Num:
    r"""Time for which training waits until a checkpoint is copied to the host. [s]

    .. math:: \delta = \max(0, S / b - W)

    Parameters
    ----------
    nbytes : Num
        What one accelerator copies :math:`S`. [byte]
    bandwidth : Num
        Of its link to the host :math:`b`. [byte/s]
    unchanged : Num
        Time :math:`W` in which the state does not change, so that training goes on: the passes of a step
        where the copy is lazy, none where training waits for it. [s]

    References
    ----------
    .. [1] A. Maurya et al., "DataStates-LLM: Lazy Asynchronous Checkpointing for Large Language Models,"
       arXiv:2406.10707, 2024, section 4.

    Examples
    --------
    >>> float(stall_seconds(40e9, 20e9, 0.5)), float(stall_seconds(40e9, 20e9, 3.0))
    (1.5, 0.0)
    """
    return np.maximum(0.0, nbytes / bandwidth - unchanged)


def disturbed_seconds(restart: Num, mtbf: Num, cured: Num) -> Num:
    r"""Time of a restart that failures of every kind make begin again, as one that its own kind alone does.

    .. math:: R' = M_2 \ln\left(1 + (1 - q) \left(e^{R / M} - 1\right)\right), \quad M_2 = \frac{M}{1 - q}

    Expected are :math:`M (e^{R / M} - 1)` until a restart is through, which `failure_slowdown` writes as
    :math:`M_2 (e^{R' / M_2} - 1)`.

    Parameters
    ----------
    restart, mtbf : Num
        Time :math:`R` of a restart that nothing disturbs, and between failures of any kind :math:`M`. [s]
    cured : Num
        Share :math:`q` of failures of the other kind, less than 1. [-]

    Returns
    -------
    Num
        At least the restart's own time. [s]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, doi:10.1016/j.future.2004.11.016: a restart that fails begins
       again.

    Examples
    --------
    >>> float(disturbed_seconds(600.0, 3600.0, 0.0)), round(float(disturbed_seconds(600.0, 3600.0, 0.9)), 1)
    (600.0, 647.0)
    """
    own = 1.0 - cured
    return mtbf / own * np.log1p(own * np.expm1(restart / mtbf))


def two_level_slowdown(near: tuple[Num, Num, Num], far: tuple[Num, Num, Num], mtbf: Num, cured: Num) -> Num:
    r"""Expected time of a job over that of its training, with copies near by and checkpoints in storage.

    .. math::
        s_1 = \frac{M_1 e^{R_1/M_1} \left(e^{(\tau_1 + \delta_1)/M_1} - 1\right)}{\tau_1}, \quad
        s = \frac{M_2 e^{R/M_2} \left(e^{(s_1 \tau_2 + \delta_2)/M_2} - 1\right)}{\tau_2}, \quad
        R = M_2 \ln\left(1 + (1 - q) \left(e^{R_2/M} - 1\right)\right), \quad
        M_1 = \frac{M}{q}, \quad M_2 = \frac{M}{1 - q}

    Parameters
    ----------
    near, far : tuple of (Num, Num, Num)
        Training between copies :math:`\tau`, time for which it stops :math:`\delta`, and time from a failure
        until it goes on :math:`R`, near by and in storage. [s]
    mtbf : Num
        Mean time between failures :math:`M`. [s]
    cured : Num
        Share :math:`q` of failures after which the near copy is still there, less than 1. [-]

    Returns
    -------
    Num
        At least 1. [-]

    References
    ----------
    .. [1] J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps," Future
       Generation Computer Systems 22(3), 2006, its complete model, doi:10.1016/j.future.2004.11.016, once
       inside itself: failures of the two kinds are independent, the time between checkpoints in storage is
       that with the near failures in it, and a near failure makes a restart from storage begin again.

    Examples
    --------
    >>> round(float(two_level_slowdown((60.0, 1.0, 60.0), (1800.0, 60.0, 900.0), 7200.0, 0.9)), 4)
    1.0901
    """
    least = 1e-12
    inner, rest = failure_slowdown(*near, mtbf / np.maximum(cured, least)), np.maximum(1.0 - cured, least)
    restart = disturbed_seconds(far[2], mtbf, 1.0 - rest)
    return inner * failure_slowdown(inner * far[0], far[1], restart, mtbf / rest)


def break_even_seconds(transition: Num, fewer_step: Num, step: Num) -> Num:
    r"""Time until lost machines are back up to which a job waits rather than goes on with fewer.

    Going on takes a transition at once and another one when the machines are back; in between steps are
    longer. It makes more steps than waiting where :math:`(T - t) / s' > t / s`.

    .. math:: T = t \left(1 + \frac{s'}{s}\right)

    Parameters
    ----------
    transition : Num
        Time :math:`t` of one change of the plan. [s]
    fewer_step, step : Num
        Time of a step with fewer machines :math:`s'`, and with all :math:`s`. [s]

    Returns
    -------
    Num
        Time :math:`T`. [s]

    References
    ----------
    .. [1] Unicron, arXiv:2401.00134, 2024: a transition is weighed with the work until the next failure.

    Examples
    --------
    >>> break_even_seconds(600.0, 2.5, 2.0)
    1350.0
    """
    return transition * (1.0 + fewer_step / step)


def worthwhile_seconds(transition: Num, new_step: Num, step: Num) -> Num:
    r"""Training left, at today's speed, above which a change to a faster plan pays.

    .. math:: W = \frac{t}{1 - s' / s}

    Parameters
    ----------
    transition : Num
        Time :math:`t` of the change. [s]
    new_step, step : Num
        Time of a step afterwards :math:`s'`, and today :math:`s`, which is longer. [s]

    Returns
    -------
    Num
        Time :math:`W`. [s]

    References
    ----------
    .. [1] Unicron, arXiv:2401.00134, 2024: a transition is weighed with the work until the next failure.

    Examples
    --------
    >>> worthwhile_seconds(600.0, 1.5, 2.0)
    2400.0
    """
    return transition / (1.0 - new_step / step)
