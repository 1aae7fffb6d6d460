"""Error bands: what measured runs miss at a site that nobody has calibrated, and at one that has been."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Key, Values, shipped_values
from planner.calibrate.fit import Column, Factor, log_errors, mean_error
from planner.calibrate.pricing import Prediction
from planner.calibrate.refit import Refit
from planner.calibrate.runs.defaults import PricedRun, Skip
from planner.calibrate.sites.fit import COVERED, SHARES
from planner.calibrate.sites.solve import pinned
from planner.inputs.bands import (
    RELEASE_RUNS,
    RELEASE_SITES,
    TENSOR_ERROR,
    UNSEEN_WIDER,
    core_of,
    release_share,
)
from planner.inputs.measured_bands import Key as Cell
from planner.inputs.measured_bands import MeasuredBand, for_new_site, regime_of

FEWEST_RUNS: Final = 5
"""Runs below which a runtime on an accelerator has no error band. [-]"""

ENOUGH_RUNS: Final = 10
"""Runs below which nobody can tell what 90% stay below; the runtime's other runs then say it. [-]"""

PICKS: Final = 8
"""Runs of a site, evenly spread over its table, that calibrate the others in turn. [-]"""

K = TypeVar("K")
T = TypeVar("T")


@dataclass(frozen=True)
class SiteErrors:
    """Logarithmic errors of the runs of one source with a runtime on an accelerator. [-]

    Parameters
    ----------
    elsewhere : Column
        Priced with constants fitted to other sources alone.
    calibrated : Column
        The same, calibrated with one other run of the source; empty for a single run.
    extrapolated : Column
        Share of each step outside the fitted range of kernel curves.
    eras : tuple of str
        The era of each run.
    tensor : Column
        Share of each step that waits for messages of tensor parallelism.
    """

    elsewhere: Column
    calibrated: Column
    extrapolated: Column
    eras: tuple[str, ...] = ()
    tensor: Column = field(default_factory=lambda: np.array([]))

    def of(self, era: str) -> SiteErrors:
        """Return those of the runs of one era."""
        own = _of(self, era)
        calibrated = self.calibrated[own] if self.calibrated.size else self.calibrated
        tensor = self.tensor[own] if self.tensor.size else self.tensor
        return SiteErrors(
            self.elsewhere[own], calibrated, self.extrapolated[own], (era,) * int(sum(own)), tensor
        )


Sites = Mapping[str, SiteErrors]
"""Errors by source, each of which counts as a site."""


def band_of(
    cell: Cell, sites: Sites, others: Sequence[SiteErrors] = (), alike: Sequence[SiteErrors] = ()
) -> MeasuredBand:
    """Return the means of the errors at some sites, and what 90% stay below.

    Where the sites have fewer than `ENOUGH_RUNS`, that is no less than for them and the ``others`` together,
    nor than for those ``alike``, their own among them.
    """
    elsewhere, calibrated, extrapolated, tensor = (
        np.concatenate([getattr(errors, name) for errors in sites.values()])
        for name in ("elsewhere", "calibrated", "extrapolated", "tensor")
    )
    known = calibrated.size > 0
    few = elsewhere.size < ENOUGH_RUNS

    def covering(name: str) -> float:
        own, more, kin = (
            [getattr(errors, name) for errors in some] for some in (sites.values(), others, alike)
        )
        pools = (own, [*own, *more], kin or own) if few else (own,)
        return rounded(max(map(_covering, pools)))

    return MeasuredBand(
        *cell,
        runs=elsewhere.size,
        mean_error=rounded(mean_error(elsewhere)),
        band=covering("elsewhere"),
        sites=len(sites),
        extrapolated=rounded(float(np.mean(extrapolated))),
        calibrated_runs=calibrated.size,
        calibrated_mean_error=rounded(mean_error(calibrated)) if known else None,
        calibrated_band=covering("calibrated") if known else None,
        tensor=rounded(float(np.mean(tensor))) if tensor.size else 0.0,
    )


def coverage(cell: Cell, sites: Sites, name: str) -> dict[str, float]:
    """Return the share of each site's runs inside the band that the other sites alone would give.

    Parameters
    ----------
    cell : Cell
        Runtime, accelerator and regime.
    sites : mapping
        Errors by site.
    name : str
        ``elsewhere`` or ``calibrated``.
    """
    shares = {}
    for site, errors in sites.items():
        others = [getattr(other, name) for key, other in sites.items() if key != site]
        own = np.abs(np.expm1(getattr(errors, name)))
        if own.size and sum(other.size for other in others) >= FEWEST_RUNS:
            shares[site] = float(np.mean(own <= _next_site(others)))
    return shares


def _covering(sites: Sequence[Column]) -> float:
    """Return what 90% of runs of some sites stay below, and 90% of the mean site. [-]"""
    known = [np.abs(np.expm1(site)) for site in sites if site.size]
    errors, weights = (
        np.concatenate(known),
        np.concatenate([np.full(one.size, 1 / one.size) for one in known]),
    )
    order = np.argsort(errors)
    reached = np.cumsum(weights[order]) / len(known)
    alike = errors[order][min(int(np.searchsorted(reached, COVERED)), errors.size - 1)]
    return float(max(np.quantile(errors, COVERED), alike))


def _next_site(sites: Sequence[Column]) -> float:
    """Return the band of the runs of a site beside these. [-]"""
    return for_new_site(_covering(sites), sum(site.size > 0 for site in sites))


def rounded(value: float) -> float:
    """Return a figure with three digits."""
    return float(f"{value:.3g}")


def cell_of(run: PricedRun, found: Prediction) -> Cell:
    """Return the runtime and the accelerator of a run, and its regime by what ships."""
    pool = run.job.hardware.pool
    experts = bool(run.job.model.expert_kinds)
    regime = regime_of(pool, run.job.gpus, found.host_share, found.mfu, experts)
    return run.runtime.name, pool.accelerator.name, regime


def site_errors(
    runs: Sequence[PricedRun], refit: Refit, tell: Callable[[str], object] = lambda line: None
) -> dict[Cell, dict[str, SiteErrors]]:
    """Return the errors of runs at sites that the constants have not seen, and after one run there.

    Parameters
    ----------
    runs : sequence of PricedRun
        Timed runs of all sources.
    refit : Refit
        Fits the constants to the other sources.
    tell : callable
        Takes a line after each source.
    """
    found: dict[Cell, dict[str, SiteErrors]] = {}
    shipped = predictions_with(shipped_values())
    for source, members in _grouped(runs, lambda run: run.run.source).items():
        values = refit.values([run for run in runs if run.run.source != source])
        priced = zip(members, shipped(members), strict=True)
        known = [(run, one) for run, one in priced if isinstance(one, Prediction)]
        elsewhere = dict(zip(map(id, members), predictions_with(values)(members), strict=True))
        for cell, inside in _grouped(known, lambda pair: cell_of(*pair)).items():
            here = [run for run, _ in inside]
            prices = [elsewhere[id(run)] for run in here]
            found.setdefault(cell, {})[source] = SiteErrors(
                np.array([_log_error(run, one) for run, one in zip(here, prices, strict=True)]),
                calibrated_errors(here, source, values),
                np.array([one.extrapolated for one in prices if isinstance(one, Prediction)]),
                tuple(run.era for run in here),
                np.array([one.tensor_share for one in prices if isinstance(one, Prediction)]),
            )
        tell(f"without {source}: {len(members)} runs")
    return found


def _log_error(run: PricedRun, one: Prediction | Skip) -> float:
    """Logarithm of predicted over measured seconds; 0 for what cannot be priced. [-]"""
    known = isinstance(one, Prediction) and bool(run.measured.seconds)
    return float(np.log(one.step_s / run.measured.seconds)) if known else 0.0  # type: ignore[union-attr,operator]


def _grouped(members: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def calibrated_errors(runs: Sequence[PricedRun], site: str, values: Values) -> Column:
    """Logarithmic error of each run at a site that one other run of the site has calibrated. [-]

    A few runs, evenly spread, calibrate in turn; a single run has no other, and no error.
    """
    if len(runs) < 2:
        return np.array([])
    name, width, meaning = SHARES["compute"]
    factor = Factor(("site", site, name), 1.0, meaning, width)
    fixed = dict(values) | {("site", site, name): 1.0 for name, _, _ in SHARES.values()}
    turns = calibrating(len(runs))
    errors = np.zeros(len(runs))
    for pick in sorted(set(turns)):
        found, _ = pinned([runs[pick]], [factor], fixed)
        inside = [place for place, turn in enumerate(turns) if turn == pick]
        here: dict[Key, float] = fixed | {factor.key: float(found[0])}
        errors[inside] = log_errors([runs[place] for place in inside], here)
    return errors


def calibrating(count: int) -> list[int]:
    """Return for each of several runs which other one calibrates it.

    Examples
    --------
    >>> calibrating(3), calibrating(2)
    ([1, 2, 0], [1, 0])
    """
    picks = sorted({round(place) for place in np.linspace(0, count - 1, min(count, PICKS))})
    turns = [picks[(place + 1) % len(picks)] for place in range(count)]
    return [picks[(place + 2) % len(picks)] if turn == place else turn for place, turn in enumerate(turns)]


def bands_of(found: Mapping[Cell, Sites]) -> list[dict[str, object]]:
    """Return the entries of the file of bands, in the order of their names.

    A regime of few runs is no better known than it is of all runs of the runtime's core on the accelerator.
    """
    runtimes: dict[str, list[SiteErrors]] = {}
    alike: dict[Cell, list[SiteErrors]] = {}
    for (runtime, chip, regime), sites in sorted(found.items()):
        runtimes.setdefault(runtime, []).extend(sites.values())
        if regime:
            alike.setdefault((core_of(runtime), chip, regime), []).extend(sites.values())
    bands = [
        band_of(cell, sites, runtimes[cell[0]], alike.get((core_of(cell[0]), *cell[1:]), ()))
        for cell, sites in sorted(found.items())
    ]
    return [asdict(band) for band in bands if band.runs >= FEWEST_RUNS]


def release_bands_of(found: Mapping[Cell, Sites]) -> list[dict[str, object]]:
    """Return the entries of the file of bands by era, of however few runs."""
    entries = []
    for cell, sites in sorted(found.items()):
        for era in sorted({era for errors in sites.values() for era in errors.eras}):
            own = {site: errors.of(era) for site, errors in sites.items() if era in errors.eras}
            entries.append(asdict(replace(band_of(cell, own), era=era)))
    return entries


def release_coverage(found: Mapping[Cell, Sites], by_release: bool) -> dict[tuple[Cell, str], float]:
    """Return the share of each era's runs inside the band that the other sites alone would give it.

    ``by_release`` takes its own runs there where they are enough, and what is wider where no run is its own
    (`planner.inputs.bands`); else all runs of the cell are one.
    """
    return _shares(((cell, era), inside) for cell, _, era, inside in _held(found, by_release))


def source_coverage(found: Mapping[Cell, Sites]) -> dict[str, float]:
    """Return the share of each source's runs inside the band by release that the other sites would give."""
    return _shares((site, inside) for _, site, _, inside in _held(found, by_release=True))


def _shares(held: Iterable[tuple[K, NDArray[np.bool_]]]) -> dict[K, float]:
    """Return the share of what is held under each key. [-]"""
    parts = _grouped(held, lambda pair: pair[0])
    return {key: float(np.mean(np.concatenate([one for _, one in pairs]))) for key, pairs in parts.items()}


def _held(
    found: Mapping[Cell, Sites], by_release: bool
) -> Iterator[tuple[Cell, str, str, NDArray[np.bool_]]]:
    """Yield for each cell, source and era which runs are inside the band that the other sites would give."""
    for cell, sites in found.items():
        for site, errors in sites.items():
            others = [other for key, other in sites.items() if key != site]
            if sum(other.elsewhere.size for other in others) < FEWEST_RUNS:
                continue
            whole = _next_site([other.elsewhere for other in others])
            usual = np.concatenate([other.tensor for other in others])
            for era in sorted(set(errors.eras)):
                share = _release_band(whole, [other.of(era).elsewhere for other in others])
                own = errors.of(era)
                more = np.maximum(own.tensor - np.mean(usual), 0.0) if usual.size else 0.0
                band = np.hypot(share if by_release else whole, TENSOR_ERROR * more)
                yield cell, site, era, np.abs(np.expm1(own.elsewhere)) <= band


def _release_band(whole: float, sites: Sequence[Column]) -> float:
    runs = sum(site.size for site in sites)
    if not runs:
        return whole * UNSEEN_WIDER
    enough = runs >= RELEASE_RUNS and sum(site.size > 0 for site in sites) >= RELEASE_SITES
    own = _next_site(sites)
    return release_share(own, whole) if enough else max(whole, own)


def inside_of(found: Mapping[Cell, Sites]) -> dict[str, object]:
    """Return the mean of `release_coverage`, one band for all and by release, and the shares by source."""
    shares = [list(release_coverage(found, by_release).values()) for by_release in (False, True)]
    by_source = {site: rounded(share) for site, share in sorted(source_coverage(found).items())}
    told = {"eras": len(shares[0]), "one_band": _mean(shares[0]), "by_release": _mean(shares[1])}
    return told | {"by_source": by_source}


def _of(errors: SiteErrors, era: str) -> NDArray[np.bool_]:
    return np.array([one == era for one in errors.eras], dtype=bool)


def coverage_of(found: Mapping[Cell, Sites]) -> dict[str, object]:
    """Return how well bands hold, and what one run of a site's own is worth.

    ``inside`` is the mean share of a site's runs inside the band of the other sites: 0.9, if it is true;
    ``mean_error`` and ``p90_error`` are means over sites that have a run to calibrate with.
    """
    told: dict[str, object] = {}
    ours = [
        errors for _, sites in sorted(found.items()) for errors in sites.values() if errors.calibrated.size
    ]
    for name in ("elsewhere", "calibrated"):
        inside = [
            share for cell, sites in sorted(found.items()) for share in coverage(cell, sites, name).values()
        ]
        columns = [getattr(errors, name) for errors in ours]
        told[name] = {
            "sites": len(inside),
            "inside": _mean(inside),
            "all_sites": len(columns),
            "mean_error": _mean([mean_error(column) for column in columns]),
            "p90_error": _mean([_covering([column]) for column in columns]),
        }
    return told


def _mean(values: Sequence[float]) -> float:
    return rounded(float(np.mean(values)))
