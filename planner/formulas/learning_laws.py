r"""Laws of learning: loss by size and replicas, and the batch beyond which more of it pays less."""

from __future__ import annotations

import numpy as np

from planner.numeric import Num, maximum


def power_law(size: Num, scale: Num, exponent: Num) -> Num:
    r"""A loss, or a batch, as a power of the size of a model that is trained on 20 tokens a parameter.

    .. math:: A N^\alpha

    Parameters
    ----------
    size : Num
        Parameters :math:`N`, or replicas, as a bare number. [-]
    scale : Num
        The coefficient :math:`A`. [-]
    exponent : Num
        The exponent :math:`\alpha`. [-]

    Returns
    -------
    Num
        The loss, or the batch. [-]

    References
    ----------
    .. [1] Z. Charles et al., "Communication-Efficient Language Model Training Scales Reliably and Robustly:
       Scaling Laws for DiLoCo," arXiv:2503.09799, tables 2 and 3.

    Examples
    --------
    >>> round(float(power_law(1e9, 18.129, -0.0953)), 3)
    2.516
    """
    return scale * np.exp(exponent * np.log(size))


def equal_loss_compute(loss_ratio: Num, exponent: Num) -> Num:
    r"""Times the compute with which a method of higher loss reaches that of another.

    .. math:: r^{2 / |\alpha|}

    On the line of 20 tokens a parameter, where both grow, compute is the square of the size.

    Parameters
    ----------
    loss_ratio : Num
        Its loss over the other's :math:`r` at one size. [-]
    exponent : Num
        The exponent :math:`\alpha` of loss in the size. [-]

    Returns
    -------
    Num
        At least 1 for a higher loss. [-]

    References
    ----------
    .. [1] Derived from Z. Charles et al., arXiv:2503.09799, table 2: a loss that is higher by :math:`r` is
       that of a model smaller by :math:`r^{1/|\alpha|}`.

    Examples
    --------
    >>> round(float(equal_loss_compute(1.005, -0.0953)), 3)
    1.11
    """
    return np.exp(2.0 * np.log(loss_ratio) / np.absolute(exponent))


def critical_batch_sequences(params_millions: Num) -> Num:
    r"""Batch at which steps to a loss are 20% more than linear scaling promises, on 20 tokens a parameter.

    .. math:: 93.20 N^{0.47}

    Parameters
    ----------
    params_millions : Num
        Parameters :math:`N` in millions; seen from 85 to 1,200. [-]

    Returns
    -------
    Num
        Sequences of 512 tokens. [-]

    References
    ----------
    .. [1] H. Zhang et al., "How Does Critical Batch Size Scale in Pre-training?," arXiv:2410.21676, sec. 3.

    Examples
    --------
    >>> round(float(critical_batch_sequences(151.0)))
    985
    """
    return power_law(params_millions, 93.20, 0.47)


def large_batch_tokens(batch_share: Num) -> Num:
    r"""Times the tokens to one loss that a batch costs: linear through 1 at none and 1.2 at the critical one.

    .. math:: 1 + 0.2 B / B^*

    Parameters
    ----------
    batch_share : Num
        The batch over the critical one :math:`B / B^*`. [-]

    Returns
    -------
    Num
        At least 1. [-]

    References
    ----------
    .. [1] H. Zhang et al., arXiv:2410.21676: the two points that define the critical batch; the line between
       them is drawn here.

    Examples
    --------
    >>> large_batch_tokens(1.0), large_batch_tokens(0.0)
    (1.2, 1.0)
    """
    return 1.0 + 0.2 * batch_share


def inner_steps_perplexity(steps: Num) -> Num:
    r"""Perplexity of DiLoCo by its inner steps, over that at 50: a line in their logarithm.

    .. math:: 1 + 0.029 \max(0, \ln(H / 50)) / \ln 20

    Parameters
    ----------
    steps : Num
        Inner steps :math:`H`. [-]

    Returns
    -------
    Num
        At least 1. [-]

    References
    ----------
    .. [1] A. Douillard et al., "DiLoCo," arXiv:2311.08105, fig. 4: 2.9% from 50 to 1,000 at 150 M; the line
       between them is drawn here.

    Examples
    --------
    >>> float(inner_steps_perplexity(1000.0)), float(inner_steps_perplexity(30.0))
    (1.029, 1.0)
    """
    ratio: Num = 1.0 + 0.029 * np.log(maximum(steps, 50.0) / 50.0) / np.log(20.0)
    return ratio
