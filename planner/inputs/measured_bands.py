"""What is known of errors: the measured runs of each runtime and accelerator, by what decides their steps."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final

from planner.dataclasses import dataclass, replace
from planner.inputs.fitted import fitted_file
from planner.inputs.yaml_file import read_fitted

if TYPE_CHECKING:
    from planner.inputs.hardware import Pool

HOST: Final = "host"
"""The regime of steps that wait for their host."""

CROWDED: Final = "crowded"
"""The regime of jobs on many nodes of a network whose rate falls with their number."""

EXPERTS: Final = "experts"
"""The regime of models with routed experts, where none of the others decides.

Of 101 runs of Megatron-Bridge with experts 90% are within 14%, of 249 without within 10%, each source left
out.
"""

HOST_SHARE: Final = 0.25
"""Share of a step from which on waiting for the host decides how far it may be off: an assumption. [-]

Of 105 tests of Megatron-LM that wait at all 102 wait for longer; of 2,368 other runs on its core none waits.
"""

IDLE_MFU: Final = 0.015
"""Share of its peak below which a device that no network keeps waiting is taken to wait for its host. [-]

Of 107 tests of Megatron-LM 98 are below, of 2,774 other runs 18.
"""

CROWDED_NODES: Final = 4
"""Nodes from which on such a network decides. [-]

Of 701 steps on EFA [1]_ the logarithm of predicted over measured is within 0.24 for 90% on one and
two nodes, and within 0.48 to 1.55 on 4 to 32.

.. [1] Hugging Face, nanotron, "The Ultra-Scale Playbook", 2025 (`tests/measured/runs/README.md`).
"""


Key = tuple[str, str, str]
"""Runtime, accelerator, and the regime: empty where compute, memory and links decide."""


def regime_of(pool: Pool, gpus: int, host_share: float, mfu: float = 1.0, experts: bool = False) -> str:
    """Return what decides how far a step may be off, beside its runtime and accelerator.

    Parameters
    ----------
    pool : Pool
        The accelerators and their network.
    gpus : int
        Accelerators of the job. [-]
    host_share : float
        Share of the step in which the device waits for its host. [-]
    mfu : float
        Share of its peak that the device reaches, in model FLOPs. [-]
    experts : bool
        Whether the model has routed experts.
    """
    if host_share > HOST_SHARE:
        return HOST
    nodes = -(-gpus // pool.gpus_per_node)
    if pool.network is not None and pool.network.crowd and nodes >= CROWDED_NODES:
        return CROWDED
    if mfu < IDLE_MFU:
        return HOST
    return EXPERTS if experts else ""


@dataclass(frozen=True)
class MeasuredBand:
    """Errors of the measured runs of a runtime on an accelerator, priced without having seen them."""

    runtime: str
    accelerator: str
    regime: str
    """Which runs; the regime is that of `regime_of`."""
    runs: int
    """How many. [-]"""
    mean_error: float
    band: float
    """Mean, and what 90% stay below, each site priced with constants of the others alone. [-]"""
    sites: int = 1
    """Sources of the runs, each of which counts as a site. [-]"""
    extrapolated: float = 0.0
    """Mean share of their steps outside the fitted range of kernel curves. [-]"""
    calibrated_runs: int = 0
    """Those whose site has another run to calibrate with. [-]"""
    calibrated_mean_error: float | None = None
    calibrated_band: float | None = None
    """The same after one other run of its site has been given to `planner calibrate`. [-]"""
    era: str = ""
    """The era of the runs; empty where they are of any."""
    tensor: float = 0.0
    """Mean share of their steps in which the device waits for messages of tensor parallelism. [-]"""

    @property
    def key(self) -> Key:
        """Whose band it is, of whatever era."""
        return self.runtime, self.accelerator, self.regime


@cache
def measured_bands() -> dict[Key, MeasuredBand]:
    """Return what is known of errors at one more site, by runtime, accelerator and regime."""
    path = fitted_file("bands")
    if not path.is_file():
        return {}
    bands = [at_new_site(MeasuredBand(**entry)) for entry in read_fitted(path)["bands"]]
    return {band.key: band for band in bands}


@cache
def release_bands() -> dict[tuple[Key, str], MeasuredBand]:
    """Return what is known of errors at one more site by `Key` and era, of however few runs."""
    path = fitted_file("release_bands")
    entries = read_fitted(path)["bands"] if path.is_file() else ()
    bands = [at_new_site(MeasuredBand(**entry)) for entry in entries]
    return {(band.key, band.era): band for band in bands}


@cache
def eras_that_ran() -> frozenset[tuple[str, str, str]]:
    """Return each runtime, accelerator and era of which some run was measured."""
    return frozenset((runtime, name, era) for (runtime, name, _), era in release_bands())


def for_new_site(share: float, sites: int) -> float:
    r"""Return the band of the runs of one more site, from what 90% of runs of some sites stay below. [-]

    .. math:: b' = b \sqrt{1 + 1 / n}

    Parameters
    ----------
    share : float
        The band :math:`b` of the known sites; the new one is at most 1, since no price is below nothing. [-]
    sites : int
        The known sites :math:`n`. [-]

    Notes
    -----
    Of sources that share a runtime, an accelerator and a regime one is left out, and its runs are counted
    inside the band of one, two, three, four and six others: 82, 86, 88, 90 and 93% in the mean are inside
    :math:`b`, and 90, 91, 90, 91 and 94% inside :math:`b'`.

    References
    ----------
    .. [1] G. J. Hahn and W. Q. Meeker, Statistical Intervals: A Guide for Practitioners, Wiley, 1991, ch. 4:
       the interval of one further observation.

    Examples
    --------
    >>> round(for_new_site(0.1, 1), 3), round(for_new_site(0.1, 8), 3)
    (0.141, 0.106)
    """
    return max(share, min(1.0, share * math.sqrt(1 + 1 / sites)))


def at_new_site(band: MeasuredBand) -> MeasuredBand:
    """Return the band of one more site than those of the runs."""
    calibrated = band.calibrated_band
    return replace(
        band,
        band=for_new_site(band.band, band.sites),
        calibrated_band=None if calibrated is None else for_new_site(calibrated, band.sites),
    )


@cache
def lent_error() -> float:
    """Return the error of kernel curves where nothing was measured: 90% of kernels stay below. [-]"""
    path = fitted_file("bands")
    return float(read_fitted(path).get("lent_curves", {}).get("p90_error", 0.0)) if path.is_file() else 0.0


def error_bands() -> dict[tuple[str, str], float]:
    """Return the error that 90% of runs of no regime of their own stay below, never calibrated. [-]"""
    return {key[:2]: band.band for key, band in measured_bands().items() if not key[2]}
