"""Error bands: how far the time of a step may be off, by what measured runs of its kind were off."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from planner.dataclasses import dataclass, replace
from planner.inputs.fitted import die_of
from planner.inputs.measured_bands import (
    CROWDED,
    EXPERTS,
    HOST,
    Key,
    MeasuredBand,
    lent_error,
    measured_bands,
    release_bands,
)
from planner.remembered import remembered

if TYPE_CHECKING:
    from planner.inputs.hardware import Pool


@dataclass(frozen=True)
class Band:
    """How far the time of a step may be off."""

    share: float
    """90% of steps are expected to be no further off. [-]"""
    basis: str
    """Where that is from, in words."""
    lender: str = ""
    """The runtime and accelerator whose band it is, widened, or that it is of other releases or settings;
    empty where it is its own."""
    shared: float = 1.0
    """How much wider it is since it is lent, which every plan of a question has in common. [-]"""


def step_range(seconds: float, band: float) -> tuple[float, float]:
    """Return between which seconds a measured step is expected to lie.

    Parameters
    ----------
    seconds : float
        Price of the step. [s]
    band : float
        How far off prices are, as shares of what was measured. [-]

    Returns
    -------
    tuple of float
        The least, and the most, which is infinite from a band of 1 on: prices too low are off by less than
        1 however long the step took. [s]
    """
    return seconds / (1.0 + band), seconds / (1.0 - band) if band < 1.0 else math.inf


def is_as_expected(measured: float, seconds: float, band: float) -> bool:
    """Return whether a measured step lies in the range of its price.

    Where that has no upper end, a step that takes more than ``1 + band`` times its price is worth a look.
    """
    low, high = step_range(seconds, band)
    return low <= measured <= (high if math.isfinite(high) else seconds * (1.0 + band))


NEARLY_FULL = 0.85
"""Share of the device's memory from which on the allocator may free blocks and ask for them again. [-]"""

NEARLY_FULL_WIDER = 1.3
"""How much further off steps are where memory is nearly full. [-]

Of the public runs, 176 above that share are 1.23 times as far off as the mean run of their source, 719 below
it 0.94 times; hardly any more to one side.
"""


@dataclass(frozen=True)
class Asked:
    """What a band must be of, beside runtime and accelerator."""

    era: str = ""
    """The era of the release; empty for one that is priced as its own files run."""
    unseen: Sequence[str] = ()
    """Settings, with their values, that no measured run there has."""
    tensor: float = 0.0
    """Share of the step in which the device waits for messages of tensor parallelism. [-]"""


def error_band(
    runtime: str,
    pool: Pool,
    extrapolated: float,
    used: float = 0.0,
    regime: str = "",
    asked: Asked | None = None,
) -> Band | None:
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
    regime : str
        As of `regime_of`.
    asked : Asked, optional
        Release and settings; None for whatever the runs have.

    Notes
    -----
    The band is that of the runs of the release on the accelerator, or, where these are few, that of all
    releases if it is wider. Where no run there is of the release, or has a setting that is asked for, that
    of the others is taken `UNSEEN_WIDER` times as wide. Where a larger share is extrapolated than in the
    runs that the band is from, the error of kernel curves that were never measured is added for that share,
    as independent of the rest; so is `TENSOR_ERROR` where the device waits longer for tensor parallelism.
    """
    band = _band(runtime, pool, extrapolated, regime, asked)
    if band is None or used <= NEARLY_FULL:
        return band
    basis = f"{band.basis}; wider since memory is nearly full"
    return replace(band, share=band.share * NEARLY_FULL_WIDER, basis=basis)


def _band(runtime: str, pool: Pool, extrapolated: float, regime: str, asked: Asked | None) -> Band | None:
    """Return the error band of a step on a device that has memory left."""
    own, name = pool.calibration, pool.accelerator.name
    known = _known((runtime, name, regime), asked)
    ours = own is not None and runtime in own.runtimes
    if own is not None and ours and own.band is not None:
        basis = f"{own.runs} runs of this site's own, each held out of its calibration"
        return _widened(float(own.band), basis, _More(extrapolated - float(own.extrapolated or 0.0)))
    if known is None:
        near = _lent_band(runtime, pool, regime)
        if near is None or ours:
            return None
        return _of_lender(near, (runtime, name, regime), extrapolated, asked)
    more = _more_than(known, extrapolated, asked)
    sites = f"{known.sites} {'site' if known.sites == 1 else 'sites'}"
    of = f"{runtime} ({known.era})" if known.era else runtime
    where = f"{of} on {name}{_where(regime)} at {sites}"
    if (ours or (own is None and _fitted(pool))) and known.calibrated_band is not None:
        missed = float(own.missed or 0.0) if own is not None else 0.0
        if missed > known.calibrated_band:
            return _widened(missed, "what its calibration leaves of this site's own runs", more)
        basis = f"{known.calibrated_runs} runs of {where}, each calibrated with one other run of its site"
        return _widened(known.calibrated_band, basis, more)
    why = f"was calibrated only with {', '.join(own.runtimes)}" if own is not None else "never was"
    basis = f"{known.runs} runs of {where} that were not calibrated; this site {why}"
    return _unseen(_widened(known.band, basis, more), (runtime, name, regime), asked)


def _of_lender(near: MeasuredBand, own: Key, extrapolated: float, asked: Asked | None) -> Band:
    """Return the band of another accelerator or runtime, widened for what was never validated here."""
    runtime, name, regime = own
    lender = f"{near.runtime} on {near.accelerator}{_where(near.regime)}"
    why = f"{runtime} on {name}{_where(regime)} was never validated"
    wider = LENT_WIDER
    if asked is not None and near.runtime == runtime and (near.key, asked.era) not in release_bands():
        wider, why = wider * UNSEEN_WIDER, f"{why}, and no run there is of this release"
    more = _more_than(near, extrapolated, asked)
    band = _widened(wider * near.band, f"{lender}, {wider:.3g} times as wide since {why}", more)
    if regime == HOST and band.share < UNKNOWN_HOST:
        band = Band(UNKNOWN_HOST, f"{lender}, and without an upper end since {why}")
    return replace(band, lender=lender, shared=wider)


UNKNOWN_HOST: Final = 1.0
"""The least band of a step that waits for its host where no such step was timed with the runtime there. [-]

Its time is the host's and its software's: of 107 tests of Megatron-LM, with constants and bands of all other
sources, 69% were inside 2.1 times the nearest band, and the slowest took 18 times their price.
"""

RELEASE_RUNS: Final = 20
"""Runs of a release on an accelerator from which they alone say how far it is off: an assumption. [-]"""

RELEASE_SITES: Final = 2
"""Sites of these runs: one says nothing of how sites differ. [-]"""

UNSEEN_WIDER: Final = 1.2
"""How much wider a band is taken of whose runs none is of the release that is asked for, and once more where
none has one of its settings. [-]

With it 90% of runs of a source that the band has not seen are inside, in the mean over eras; with one
band for all of a runtime on an accelerator fewer (``inside`` of ``fitted/release_bands.yaml``).
"""

CALIBRATED: Final = ("calibrated_runs", "calibrated_mean_error", "calibrated_band")
"""What is known after a run of a site's own, of which few runs tell nothing."""


def _known(key: Key, asked: Asked | None) -> MeasuredBand | None:
    """Return the band of the runs there are: of the release asked for where it has enough."""
    whole = measured_bands().get(key)
    own = release_bands().get((key, asked.era)) if asked is not None and asked.era else None
    if own is None or whole is None:
        return whole
    if own.runs >= RELEASE_RUNS and own.sites >= RELEASE_SITES:
        return _halfway(own, whole)
    calibrated = {name: getattr(whole, name) for name in CALIBRATED}
    return max(replace(own, **calibrated), whole, key=_width)


def release_share(own: float, whole: float) -> float:
    """Return the band of a release whose runs are off by ``own``: halfway or more to that of ``whole``. [-]

    Few sites agree by luck as well: of two sources of Megatron-LM's of 2020-22 40 and 50% are inside ``own``.
    """
    return math.sqrt(own * whole) if own < whole else own


def _halfway(own: MeasuredBand, whole: MeasuredBand) -> MeasuredBand:
    """Return the band of a release's runs, beside that of all."""
    share = release_share(own.band, whole.band)
    if own.calibrated_band is None or whole.calibrated_band is None:
        return replace(own, band=share)
    return replace(own, band=share, calibrated_band=release_share(own.calibrated_band, whole.calibrated_band))


def _unseen(band: Band, key: Key, asked: Asked | None) -> Band:
    """Return a band as much wider as what none of its runs has asks for, at most as another accelerator's."""
    if asked is None:
        return band
    told = {} if (key, asked.era) in release_bands() else {"releases": "is of this release"}
    told |= {"settings": f"has {' or '.join(asked.unseen)}"} if asked.unseen else {}
    if not told:
        return band
    wider = min(UNSEEN_WIDER ** len(told), LENT_WIDER)
    basis = f"{band.basis}; {wider:g} times as wide since no run there {', or '.join(told.values())}"
    return Band(band.share * wider, basis, f"other {' and '.join(told)}")


CORES: Final = {"megatron-lm": "Megatron-core", "megatron-bridge": "Megatron-core"}
"""Runtimes that run the same layers, messages and optimizer, under another driver."""

SHARDED_ALIKE: Final = frozenset({"fsdp", "torchtitan"})
"""Runtimes whose parameters PyTorch's FSDP2 shards: its code gathers, hides and reduces for either."""

LENT_WIDER: Final = 1.7
"""How much wider a band is taken that is another accelerator's, or another runtime's of the same core. [-]

The least, in tenths, with which each source of five runs and more has 90% of them inside, left out of
constants and bands (`tests.lab.unseen_sources`). Each of 22 pairs of runtime, accelerator and regime with
four runs and more left out of bands as well, 99% of runs are inside what the others lend in the mean pair,
and 90% in 20 of them; were bands lent as they are, 96%, and 90% in 18.
"""

TENSOR_ERROR: Final = 0.6
"""How far the time may be off in which a device waits for messages of tensor parallelism. [-]

How much of them hides, and what they reach between nodes, differs from one site to the next. Of 2,752 runs
that wait for no host, each source left out, 90% of the mean source's are within 11% where such messages
take none of the step, 10% up to a tenth, 16% up to a fifth, 19% up to 0.3, 21% up to 0.5, and 47% above.
The root of 10% squared and 61% of the share squared holds 90% of the mean source's most narrowly, 58 to 64%
without any of the largest four sources, 39% without Sailor's.
"""

REGIMES: Final = {
    HOST: ", its host waited for",
    CROWDED: " on many nodes of a network that crowds",
    EXPERTS: ", of models with experts",
}
"""How a regime is told."""


def _where(regime: str) -> str:
    return REGIMES.get(regime, "")


class _Chip(NamedTuple):
    """What tells which accelerators are near one, and whether its own kernels were measured."""

    name: str
    arch: str
    multiprocessors: int
    measured: bool


def _lent_band(runtime: str, pool: Pool, regime: str) -> MeasuredBand | None:
    """Return the nearest band to one that was never measured; None where nothing is near."""
    own = pool.accelerator
    chip = _Chip(own.name, own.arch, int(own.multiprocessors or 0), not own.kernels.borrowed)
    return _lender(measured_bands(), runtime, chip, regime)


@remembered(most=256)
def _lender(known: Mapping[Key, MeasuredBand], runtime: str, chip: _Chip, regime: str) -> MeasuredBand | None:
    """Return who lends a band.

    Of a regime, one of the same regime before one of none. A step that waits for its host is no better known
    by runs that did not: then the widest band of the runtimes whose steps did is lent, where it is wider.
    """
    for asked in dict.fromkeys((regime, "")):
        bands = [band for band in known.values() if band.regime == asked]
        if near := next(filter(None, _nearest(runtime, chip, bands)), None):
            waiting = [band for band in known.values() if band.regime == HOST == regime != asked]
            return max([*near, *waiting], key=lambda band: band.band)
    return None


def _nearest(runtime: str, chip: _Chip, bands: Sequence[MeasuredBand]) -> Iterator[list[MeasuredBand]]:
    """Yield who may lend a band, the nearest first.

    The same accelerator under a runtime of the same core, then the runtime on another card of the same chip:
    of several the widest. Then the runtime, or one of the same core or engine of sharding, on the
    accelerators with the same die, those of the same architecture and, where its own kernels were measured,
    on any: of several the one with most sites. Each such accelerator or runtime that has runs, left out, has
    88% of them and more inside what the others lend (`tests/measured/test_unseen_sources.py`).
    """
    alike = [one for one in bands if _alike(one.runtime, runtime)]
    yield [one for one in alike if one.accelerator == chip.name and core_of(one.runtime) == core_of(runtime)]
    yield [one for one in alike if one.runtime == runtime and chip_of(one.accelerator) == chip_of(chip.name)]
    yield _best_known(one for one in alike if die_of(one.accelerator) == (chip.arch, chip.multiprocessors))
    yield _best_known(one for one in alike if die_of(one.accelerator)[0] == chip.arch)
    if chip.measured:
        yield _best_known(alike)


def evidence(runtime: str, pool: Pool, regime: str) -> tuple[tuple[str, str], ...]:
    """Return core and chip of the runs behind a price: its own, and those of who lends its band."""
    name = pool.accelerator.name
    own = core_of(runtime), chip_of(name)
    near = None if (runtime, name, regime) in measured_bands() else _lent_band(runtime, pool, regime)
    return (own,) if near is None else (own, (core_of(near.runtime), chip_of(near.accelerator)))


def _alike(runtime: str, other: str) -> bool:
    """Return whether two runtimes share their core, or the engine that shards their parameters."""
    return core_of(runtime) == core_of(other) or {runtime, other} <= SHARDED_ALIKE


def _best_known(bands: Iterable[MeasuredBand]) -> list[MeasuredBand]:
    """Return the one with most sites, of these the one with most runs; none of none."""
    return sorted(bands, key=lambda band: (band.sites, band.runs))[-1:]


def _width(band: MeasuredBand) -> float:
    return band.band


def chip_of(accelerator: str) -> str:
    """Return the chip of an accelerator, whatever its card.

    Examples
    --------
    >>> chip_of("h100-80gb-sxm"), chip_of("gb300")
    ('h100', 'gb300')
    """
    return accelerator.partition("-")[0]


def core_of(runtime: str) -> str:
    """Return whose layers and messages a runtime runs: its core's, where it shares one."""
    return CORES.get(runtime, runtime)


class _More(NamedTuple):
    """How much larger shares of a step are than in the runs that a band is from. [-]"""

    extrapolated: float = 0.0
    tensor: float = 0.0


def _more_than(known: MeasuredBand, extrapolated: float, asked: Asked | None) -> _More:
    tensor = asked.tensor - known.tensor if asked is not None else 0.0
    return _More(extrapolated - known.extrapolated, tensor)


def _widened(share: float, basis: str, more: _More) -> Band:
    """Return the band where more of the step rests on what is known less, as independent of the rest."""
    told = ["is extrapolated"] if more.extrapolated > 0 else []
    told += ["waits for tensor parallelism"] if more.tensor > 0 else []
    if not told:
        return Band(share, basis)
    far, tensor = max(more.extrapolated, 0.0) * lent_error(), max(more.tensor, 0.0) * TENSOR_ERROR
    wider = math.hypot(share, far, tensor)
    return Band(wider, f"{basis} (± {share:.1%}, wider since more of this step {' and '.join(told)})")


def _fitted(pool: Pool) -> bool:
    shares = (pool.compute_share, pool.scaleup_share, pool.network_share)
    return any(share is not None and share.standing == "fitted" for share in shares)
