r"""How long the slowest of many workers takes, and what redundancy against it costs.

Symbols: :math:`n` workers, :math:`k` of them waited for, :math:`H_n` the sum of :math:`1/i` to :math:`n`,
:math:`s` stragglers that a code bears.
"""

from __future__ import annotations

from planner.numeric import Num


def coding_load(workers: Num, stragglers: Num) -> Num:
    r"""Share of the batch that each worker computes under a gradient code. [-]

    .. math:: (s + 1) / n

    Parameters
    ----------
    workers, stragglers : Num
        Workers :math:`n`, and those that it bears :math:`s`. [-]

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
    r"""Share of the batch that each worker computes under a multiplexed sequential gradient code. [-]

    .. math:: \frac{(\lambda + 1)(W - 1 + B)}{n (B + (W - 1)(\lambda + 1))}

    Parameters
    ----------
    workers, stragglers : Num
        Workers :math:`n`, and those that it bears in a round :math:`\lambda`. [-]
    burst, rounds : Num
        Rounds :math:`B` for which a worker stays slow, at most once in a window of :math:`W` rounds. [-]

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
