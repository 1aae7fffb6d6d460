"""Measured collectives inside one scale-up domain: a curve over the size for each number of ranks."""

from __future__ import annotations

import numpy as np

from planner.dataclasses import dataclass
from planner.numeric import Num

BUS_FACTOR = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
"""How often each byte crosses the busiest link, but for the share (n - 1) / n. [-]"""


@dataclass(frozen=True)
class CollectiveCurve:
    """Constants of one operation on one accelerator and link, at each number of ranks measured.

    Parameters
    ----------
    bus_factor : float
        2 for an all-reduce, 1 for the others. [-]
    ranks : tuple of float
        Numbers of ranks that were measured, rising. [-]
    launch : tuple of float
        Time of an empty call at each of them. [s]
    seconds_per_byte : tuple of float
        Inverse of the bus bandwidth that endlessly large buffers approach. [s/byte]
    ramp : tuple of float
        Time scale over which that bandwidth is reached. [s]
    """

    bus_factor: float
    ranks: tuple[float, ...]
    launch: tuple[float, ...]
    seconds_per_byte: tuple[float, ...]
    ramp: tuple[float, ...]


def between(ranks: Num, curve: CollectiveCurve, values: tuple[float, ...]) -> Num:
    """Value of a constant at a number of ranks, straight lines between those measured.

    Parameters
    ----------
    ranks : Num
        Ranks; beyond those measured the nearest value holds. [-]
    curve : CollectiveCurve
        Its numbers of ranks.
    values : tuple of float
        The constant at each of them.
    """
    result: Num = np.interp(ranks, curve.ranks, values)
    return result


def launch_seconds(ranks: Num, curve: CollectiveCurve) -> Num:
    r"""Time of an empty call, which goes on growing beyond the largest number of ranks measured.

    .. math:: a(n) = a_j + \frac{a_j - a_i}{n_j - n_i}\,\max(0, n - n_j)

    Parameters
    ----------
    ranks : Num
        Ranks :math:`n`. [-]
    curve : CollectiveCurve
        Its last two numbers of ranks are :math:`n_i < n_j`.

    Returns
    -------
    Num
        Time, interpolated inside the measured range. [s]

    References
    ----------
    .. [1] R. W. Hockney, "The communication challenge for MPP: Intel Paragon and Meiko CS-2," Parallel
       Computing 20(3), 1994, doi:10.1016/S0167-8191(06)80021-9 (latency and asymptotic bandwidth).
    """
    inside = between(ranks, curve, curve.launch)
    if len(curve.ranks) == 1:
        return inside
    slope = (curve.launch[-1] - curve.launch[-2]) / (curve.ranks[-1] - curve.ranks[-2])
    result: Num = inside + np.maximum(slope, 0.0) * np.maximum(ranks - curve.ranks[-1], 0.0)
    return result


def collective_seconds(nbytes: Num, ranks: Num, curve: CollectiveCurve) -> Num:
    r"""Seconds of one collective among ranks of one scale-up domain. [s]

    .. math:: t = a(n) + x + \sqrt{\rho(n)\,x}, \quad x = c\,\frac{n - 1}{n}\,\frac{S}{B(n)}

    Parameters
    ----------
    nbytes : Num
        Full buffer :math:`S`: the gathered output of an all-gather, the input of a reduce-scatter before
        reduction, the send buffer of one rank of an all-to-all. [byte]
    ranks : Num
        Ranks :math:`n`; one rank costs nothing. [-]
    curve : CollectiveCurve
        Bus factor :math:`c`, launch :math:`a`, bandwidth :math:`B` and ramp :math:`\rho`.

    Notes
    -----
    Numbers of ranks between those measured are interpolated; beyond them only the launch time grows.

    References
    ----------
    .. [1] NVIDIA, "nccl-tests: Performance reported by NCCL tests," doc/PERFORMANCE.md (bus bandwidth).
    """
    crossing = curve.bus_factor * (ranks - 1.0) / ranks * nbytes
    wire = crossing * between(ranks, curve, curve.seconds_per_byte)
    seconds = launch_seconds(ranks, curve) + wire + np.sqrt(between(ranks, curve, curve.ramp) * wire)
    result: Num = np.where(ranks > 1.0, seconds, 0.0)
    return result
