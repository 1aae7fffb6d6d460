"""Experts that compute nothing: how many of a token's picks are real."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.numeric import Num, minimum

DEVIATION: Final = 3.0 / 12.0
"""Standard deviation of one token's real picks, as a share of all: 3 of 12, with a mean of 8. [-]

References
----------
.. [1] Meituan, "LongCat-Flash Technical Report," arXiv:2509.01322, sec. 2.1: 8 within 1%, deviation about 3,
   after 20B tokens.
"""

DEVIATIONS: Final = 3.0
"""Standard deviations from the mean that a peak is taken at: one in 740 ranks has more. [-]"""


def mean_picks(topk: int, experts: int, zero_experts: int) -> float:
    r"""Real experts that a token passes in the mean where all experts are picked equally often.

    .. math:: n = k \frac{N}{N + Z}

    Parameters
    ----------
    topk : int
        Experts :math:`k` that the router picks. [-]
    experts, zero_experts : int
        Experts :math:`N` that compute, and :math:`Z` that give the token back. [-]

    Returns
    -------
    float
        Picks :math:`n`; exactly :math:`k` where there are none of the other kind. [-]

    References
    ----------
    .. [1] Meituan, "LongCat-Flash Technical Report," arXiv:2509.01322, sec. 2.1: of 12 picks 8 are real,
       with 512 experts and 256 that compute nothing.

    Examples
    --------
    >>> mean_picks(12, 512, 256), mean_picks(8, 256, 0)
    (8.0, 8.0)
    """
    return topk * experts / (experts + zero_experts)


def peak_picks(topk: int, mean_real: float, tokens: Num, deviations: float = DEVIATIONS) -> Num:
    r"""Real picks of a token in the mean over the tokens of an unlucky rank. [-]

    .. math:: n + c \frac{\sigma\,k}{\sqrt{t}}

    with the deviation :math:`\sigma k` of one token's picks. All picks of all tokens are the most there are.

    Parameters
    ----------
    topk : int
        Experts :math:`k` that the router picks. [-]
    mean_real : float
        Real picks :math:`n` in the mean, `mean_picks`; all of them where no expert computes nothing. [-]
    tokens : Num
        Tokens :math:`t` of the rank. [-]
    deviations : float
        Standard deviations :math:`c` above the mean. [-]

    References
    ----------
    .. [1] The central limit theorem, for picks of tokens that are drawn independently.

    Examples
    --------
    >>> float(peak_picks(12, 8.0, 8100.0)), float(peak_picks(8, 8.0, 8100.0))
    (8.1, 8.0)
    """
    if mean_real == topk:
        return topk
    return minimum(topk, mean_real + deviations * DEVIATION * topk / np.sqrt(tokens))
