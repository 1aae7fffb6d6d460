r"""How much longer a step takes where replicas of a pipeline stage are lost and the others do their work.

Symbols: :math:`r` replicas of each stage, :math:`d` of one stage that are lost, :math:`c` the share of its
replicas that a stage has left.
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Column, Num


def rerouted_slowdown(replicas: Num, lost: Num) -> Num:
    r"""Step over that before where the lost replicas' micro-batches go to the others of their stage.

    .. math:: \frac{r}{r - d}

    All stages wait for the one that does more. The same holds where whole replicas of the model are dropped
    and the global batch is kept.

    Parameters
    ----------
    replicas, lost : Num
        Replicas of each stage :math:`r`, and those that are lost of the stage that lost most :math:`d`. [-]

    Returns
    -------
    Num
        At least 1. [-]

    References
    ----------
    .. [1] ElasWave, arXiv:2510.00606, 2025: micro-batches of the hit stage go to its surviving replicas, as
       in ReCycle, arXiv:2405.14009.

    Examples
    --------
    >>> rerouted_slowdown(4.0, 1.0)
    1.3333333333333333
    """
    return replicas / (replicas - lost)


def recut_layers(layers: int, capacities: Column) -> tuple[int, ...]:
    r"""Layers of each stage after a cut that keeps the slowest one fastest, every layer taking equally long.

    .. math:: \min \max_i n_i / c_i, \quad \sum_i n_i = L

    Parameters
    ----------
    layers : int
        Layers :math:`L`, as many as there are stages or more.
    capacities : array
        Share of its replicas that each stage has left :math:`c_i`, more than none. [-]

    Returns
    -------
    tuple of int
        Layers :math:`n_i`, one at least.

    References
    ----------
    .. [1] ElasWave, arXiv:2510.00606, 2025: layers are cut anew over stages by a minimax program; with equal
       layers the next one always goes to the stage that is fastest with it.

    Examples
    --------
    >>> recut_layers(32, np.array([1.0, 1.0, 1.0, 0.5]))
    (10, 9, 9, 4)
    """
    counts = np.ones(len(capacities))
    for _ in range(layers - len(capacities)):
        counts[np.argmin((counts + 1) / capacities)] += 1
    return tuple(int(count) for count in counts)


def share_reward_flops(rate: Num, running: Num, old_rate: Num, transition: Num) -> Num:
    r"""Useful work of a job under a new share until the next failure, less what its change costs. [FLOP]

    .. math:: G = F T - F_0 t

    Parameters
    ----------
    rate : Num
        Work of the job each second under the new share :math:`F`, by its weight. [FLOP/s]
    running : Num
        Expected time until the next failure of what runs then :math:`T`. [s]
    old_rate : Num
        Its work each second under the old share :math:`F_0`, by its weight. [FLOP/s]
    transition : Num
        Time of its change :math:`t`; none where its share stays and no node of it was lost. [s]

    References
    ----------
    .. [1] Unicron, arXiv:2401.00134, 2024: the reward of a configuration of one task.

    Examples
    --------
    >>> share_reward_flops(2e15, 3600.0, 3e15, 120.0)
    6.84e+18
    """
    return rate * running - old_rate * transition
