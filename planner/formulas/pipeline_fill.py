r"""A step whose idle time takes the forward of frozen components, of the next step's batch."""

from __future__ import annotations

import numpy as np

from planner.numeric import Num


def least_filled_seconds(pp: Num, makespan: Num, busy: Num, frozen: Num) -> Num:
    r"""Time that no filling goes below: the pipeline's own, or all work spread evenly. [s]

    .. math:: \max\{M,\; (\textstyle\sum_i B_i + Z)/p\}

    Parameters
    ----------
    pp : Num
        Ranks :math:`p`. [-]
    makespan : Num
        Step of the pipeline alone, :math:`M`. [s]
    busy : Num
        Its passes on all ranks, :math:`\sum_i B_i`. [s]
    frozen : Num
        Forward of the frozen components for the whole batch on one rank, :math:`Z`. [s]

    References
    ----------
    .. [1] Y. Tian et al., "DiffusionPipe: Training Large Diffusion Models with Efficient Pipelines,"
       arXiv:2405.01248, abstract (what is filled into what; the bound is ours).

    Examples
    --------
    >>> float(least_filled_seconds(4, 33.0, 96.0, 30.0)), float(least_filled_seconds(4, 33.0, 96.0, 48.0))
    (33.0, 36.0)
    """
    return np.maximum(makespan, (busy + frozen) / pp)


def idle_share(pp: Num, makespan: Num, busy: Num) -> Num:
    r"""Share of a step in which ranks wait. [-]

    .. math:: 1 - \sum_i B_i / (p M)

    Parameters
    ----------
    pp : Num
        Ranks :math:`p`. [-]
    makespan : Num
        Time of the step :math:`M`. [s]
    busy : Num
        What all ranks run in it, :math:`\sum_i B_i`. [s]

    References
    ----------
    .. [1] Y. Tian et al., "DiffusionPipe: Training Large Diffusion Models with Efficient Pipelines,"
       arXiv:2405.01248 (what it prints as the share of bubbles in an iteration).

    Examples
    --------
    >>> idle_share(4, 32.0, 96.0)
    0.25
    """
    return 1 - busy / (pp * makespan)
