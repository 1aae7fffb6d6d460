r"""Scaling laws: the loss of a model of so many parameters on so many tokens, and the size that is best.

Symbols: :math:`N` parameters, :math:`D` training tokens, :math:`C` training FLOPs; :math:`E, A, B, \alpha,
\beta` constants of a fit.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.numeric import Num


class LossFit(NamedTuple):
    r"""Constants of a fitted loss.

    Parameters
    ----------
    floor : float
        Loss :math:`E` that no model goes below. [nat]
    size, data : float
        Constants :math:`A` and :math:`B`. [nat]
    size_power, data_power : float
        Exponents :math:`\alpha` and :math:`\beta`. [-]
    """

    floor: float
    size: float
    data: float
    size_power: float
    data_power: float


def scaling_loss(params: Num, tokens: Num, fit: LossFit) -> Num:
    r"""Loss of a model after training. [nat]

    .. math:: L(N, D) = E + \frac{A}{N^\alpha} + \frac{B}{D^\beta}

    Parameters
    ----------
    params : Num
        Parameters :math:`N`. [element]
    tokens : Num
        Training tokens :math:`D`. [-]
    fit : LossFit
        Constants.

    References
    ----------
    .. [1] J. Hoffmann et al., "Training Compute-Optimal Large Language Models," arXiv:2203.15556, eq. 2.

    Examples
    --------
    >>> round(scaling_loss(70e9, 1.4e12, LossFit(1.69, 406.4, 410.7, 0.34, 0.28)), 3)
    1.937
    """
    return fit.floor + fit.size / params**fit.size_power + fit.data / tokens**fit.data_power


def optimal_params(flops: Num, fit: LossFit) -> Num:
    r"""Parameters of the model with the least loss that so many FLOPs train. [element]

    .. math::
        N = \left(\frac{\alpha A}{\beta B}\right)^{1 / (\alpha + \beta)}
        \left(\frac{C}{6}\right)^{\beta / (\alpha + \beta)}, \quad C = 6 N D

    Parameters
    ----------
    flops : Num
        Training FLOPs :math:`C`. [FLOP]
    fit : LossFit
        Constants.

    References
    ----------
    .. [1] J. Hoffmann et al., "Training Compute-Optimal Large Language Models," arXiv:2203.15556, eq. 4.

    Examples
    --------
    >>> round(optimal_params(5.76e23, LossFit(1.8172, 482.01, 2085.43, 0.3478, 0.3658)) / 1e9, 1)
    72.2
    """
    powers = fit.size_power + fit.data_power
    ratio = fit.size_power * fit.size / (fit.data_power * fit.data)
    first: float = ratio ** (1.0 / powers)
    return first * (flops / 6.0) ** (fit.data_power / powers)


def optimal_params_at_ratio(flops: Num, tokens_per_param: Num) -> Num:
    r"""Parameters of the model that so many FLOPs train on a fixed number of tokens for each parameter.

    .. math:: N = \sqrt{\frac{C}{6 r}}

    Parameters
    ----------
    flops : Num
        Training FLOPs :math:`C`. [FLOP]
    tokens_per_param : Num
        Tokens for each parameter :math:`r`. [-]

    Returns
    -------
    Num
        Parameters. [element]

    References
    ----------
    .. [1] J. Hoffmann et al., "Training Compute-Optimal Large Language Models," arXiv:2203.15556, table 3:
       about twenty tokens for each parameter.

    Examples
    --------
    >>> round(optimal_params_at_ratio(5.76e23, 20.0) / 1e9, 1)
    69.3
    """
    return (flops / (6.0 * tokens_per_param)) ** 0.5
