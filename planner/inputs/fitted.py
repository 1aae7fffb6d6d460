"""Constants fitted to measured runs, each a property of an accelerator, a site, an era or a runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from planner.inputs.load import data_folder
from planner.inputs.yaml_file import read_yaml

if TYPE_CHECKING:
    from planner.inputs.hardware import Pool


@dataclass(frozen=True)
class Constant:
    """One fitted number.

    Parameters
    ----------
    scope : str
        ``accelerator``, ``site``, ``era`` or ``runtime``.
    owner : str
        Which one.
    name : str
        The field that it sets.
    value : float
        In the unit of the field.
    standard_error : float
        Of the logarithm of the value. [-]
    rows : int
        Runs that it was fitted to.
    source : str
        Sources of these runs.
    meaning : str
        What it stands for, in words and with its unit.
    without : float or None
        Leave-one-group-out error of these runs where it keeps its plain value; None where not tried. [-]
    """

    scope: str
    owner: str
    name: str
    value: float
    standard_error: float
    rows: int
    source: str
    meaning: str
    without: float | None = None


def fitted_file(name: str = "constants") -> Path:
    """Return the file that holds the ``constants``, or the error ``bands``."""
    return data_folder("hardware_profiles") / "fitted" / f"{name}.yaml"


@dataclass(frozen=True)
class MeasuredBand:
    """Errors of the measured runs of a runtime on an accelerator, priced without having seen them.

    Parameters
    ----------
    runtime, accelerator : str
        Which runs.
    runs : int
        How many. [-]
    mean_error, band : float
        Mean, and what nine of ten stay below, each site priced with constants of the others alone. [-]
    sites : int
        Sources of the runs, each of which counts as a site. [-]
    extrapolated : float
        Mean share of their steps outside the fitted range of kernel curves. [-]
    calibrated_runs : int
        Those whose site has another run to calibrate with. [-]
    calibrated_mean_error, calibrated_band : float or None
        The same after one other run of its site has been given to `planner calibrate`. [-]
    """

    runtime: str
    accelerator: str
    runs: int
    mean_error: float
    band: float
    sites: int = 1
    extrapolated: float = 0.0
    calibrated_runs: int = 0
    calibrated_mean_error: float | None = None
    calibrated_band: float | None = None


@dataclass(frozen=True)
class Band:
    """How far the time of a step may be off.

    Parameters
    ----------
    share : float
        Nine of ten steps are expected to be no further off. [-]
    basis : str
        Where that is from, in words.
    lender : str
        The runtime and accelerator whose band it is, widened; empty where it is its own.
    """

    share: float
    basis: str
    lender: str = ""


@cache
def measured_bands() -> dict[tuple[str, str], MeasuredBand]:
    """Return what is known of errors, by runtime and accelerator."""
    path = fitted_file("bands")
    if not path.is_file():
        return {}
    bands = [MeasuredBand(**entry) for entry in read_yaml(path)["bands"]]
    return {(band.runtime, band.accelerator): band for band in bands}


@cache
def lent_error() -> float:
    """Return the error of kernel curves where nothing was measured: nine of ten kernels stay below. [-]"""
    path = fitted_file("bands")
    return float(read_yaml(path).get("lent_curves", {}).get("p90_error", 0.0)) if path.is_file() else 0.0


def error_bands() -> dict[tuple[str, str], float]:
    """Return the error that nine of ten runs at a site stay below that was never calibrated. [-]"""
    return {key: band.band for key, band in measured_bands().items()}


NEARLY_FULL = 0.85
"""Share of the device's memory from which on the allocator may free blocks and ask for them again. [-]"""

NEARLY_FULL_WIDER = 1.3
"""How much further off steps are where memory is nearly full. [-]

Of the public runs, 176 above that share are 1.23 times as far off as the mean run of their source, 719 below
it 0.94 times; hardly any more to one side.
"""


def error_band(runtime: str, pool: Pool, extrapolated: float, used: float = 0.0) -> Band | None:
    """Return the error band of a step, None where no run of the runtime on the accelerator was ever measured.

    Parameters
    ----------
    runtime : str
        Whose behaviour is priced.
    pool : Pool
        The accelerators, with what the site's own runs say of them.
    extrapolated : float
        Share of the step outside the fitted range of kernel curves. [-]
    used : float
        Share of the device's memory in use. [-]

    Notes
    -----
    Where a larger share is extrapolated than in the runs that the band is from, the error of kernel curves
    that were never measured is added for that share, as independent of the rest.
    """
    band = _band(runtime, pool, extrapolated)
    if band is None or used <= NEARLY_FULL:
        return band
    basis = f"{band.basis}; wider since memory is nearly full"
    return replace(band, share=band.share * NEARLY_FULL_WIDER, basis=basis)


def _band(runtime: str, pool: Pool, extrapolated: float) -> Band | None:
    """Return the error band of a step on a device that has memory left."""
    own, name = pool.calibration, pool.accelerator.name
    known = measured_bands().get((runtime, name))
    ours = own is not None and runtime in own.runtimes
    if own is not None and ours and own.band is not None:
        basis = f"{own.runs} runs of this site's own, each held out of its calibration"
        return _widened(float(own.band), basis, extrapolated - float(own.extrapolated or 0.0))
    if known is None:
        near = _lent_band(runtime, pool)
        if near is None or ours:
            return None
        lender = f"{near.runtime} on {near.accelerator}"
        basis = f"{lender}, {ELSEWHERE_WIDER:g} times as wide since {runtime} on {name} was never validated"
        wide = _widened(ELSEWHERE_WIDER * near.band, basis, extrapolated - near.extrapolated)
        return replace(wide, lender=lender)
    more = extrapolated - known.extrapolated
    where = f"{runtime} on {name} at {known.sites} {'site' if known.sites == 1 else 'sites'}"
    if (ours or (own is None and _fitted(pool))) and known.calibrated_band is not None:
        missed = float(own.missed or 0.0) if own is not None else 0.0
        if missed > known.calibrated_band:
            return _widened(missed, "what its calibration leaves of this site's own runs", more)
        basis = f"{known.calibrated_runs} runs of {where}, each calibrated with one other run of its site"
        return _widened(known.calibrated_band, basis, more)
    why = f"was calibrated only with {', '.join(own.runtimes)}" if own is not None else "never was"
    basis = f"{known.runs} runs of {where} that were not calibrated; this site {why}"
    return _widened(known.band, basis, more)


CORES: Final = {"megatron-lm": "Megatron-core", "megatron-bridge": "Megatron-core"}
"""Runtimes that run the same layers, messages and optimizer, under another driver."""

ELSEWHERE_WIDER: Final = 1.6
"""How much wider a band is taken that is another accelerator's, or another runtime's of the same core. [-]

Bands of one runtime on two accelerators differ by no more in nine of ten of the 30 pairs that
`measured_bands` has (`tests/unit/test_lent_bands.py`).
"""


def _lent_band(runtime: str, pool: Pool) -> MeasuredBand | None:
    """Return the nearest band to one that was never measured; None where nothing is near.

    Near is the same accelerator under a runtime of the same core, then the runtime on another card of the
    same chip: of several the widest.
    """
    name, core, bands = pool.accelerator.name, CORES.get(runtime, runtime), measured_bands()
    here = [band for (who, where), band in bands.items() if where == name and CORES.get(who, who) == core]
    chip = [band for (who, where), band in bands.items() if who == runtime and _chip(where) == _chip(name)]
    return max(here or chip, key=lambda band: band.band, default=None)


def _chip(accelerator: str) -> str:
    return accelerator.partition("-")[0]


def _widened(share: float, basis: str, more: float) -> Band:
    if more <= 0:
        return Band(share, basis)
    wider = math.hypot(share, more * lent_error())
    return Band(wider, f"{basis} (± {share:.1%}, wider since more of this step is extrapolated)")


def _fitted(pool: Pool) -> bool:
    shares = (pool.compute_share, pool.scaleup_share, pool.network_share)
    return any(share is not None and share.standing == "fitted" for share in shares)


@cache
def all_constants() -> tuple[Constant, ...]:
    """Return every constant that ships."""
    if not fitted_file().is_file():
        return ()
    return tuple(Constant(**entry) for entry in read_yaml(fitted_file())["constants"])


def fitted(scope: str, owner: str) -> list[Constant]:
    """Return the constants of one owner."""
    return [entry for entry in all_constants() if (entry.scope, entry.owner) == (scope, owner)]


SHARE: Final = "training_share"
"""Name of the constant that says what training reaches of an accelerator's curves."""

REFERENCE: Final = "a100-80gb-sxm"
"""The accelerator whose share is 1: what its training steps reach of its curves stands with the codes."""


def share_of_kin(arch: str, shares: Mapping[str, float]) -> float:
    """Return the share of its curves that an accelerator without runs reaches in training. [-]

    The geometric mean over the accelerators with runs: those of its architecture, or of the one whose curves
    it borrows; else all of them.

    Parameters
    ----------
    arch : str
        Architecture of the accelerator.
    shares : mapping
        Shares of the accelerators with runs, by name.

    Examples
    --------
    >>> shares = {"h100-80gb-sxm": 0.98, "b200-180gb": 0.81, "gb200-186gb": 1.0}
    >>> [round(share_of_kin(arch, shares), 3) for arch in ("hopper", "volta", "rubin", "cdna3")]
    [0.98, 1.0, 0.9, 0.944]
    """
    from planner.inputs.kernels import RELATIVES

    known = {REFERENCE: 1.0, **shares}
    family = {arch, _arch_of(RELATIVES[arch])} if arch in RELATIVES else {arch}
    kin = [share for name, share in known.items() if _arch_of(name) in family] or list(known.values())
    return math.exp(sum(math.log(share) for share in kin) / len(kin))


@cache
def _arch_of(accelerator: str) -> str:
    path = data_folder("hardware_profiles") / "accelerators" / f"{accelerator}.yaml"
    return str(read_yaml(path)["arch"]) if path.is_file() else ""
