"""Whether bands hold of a source that neither constants nor bands have seen, and how wide they are.

``python -m tests.lab.unseen_sources RUNS_DIR`` prints a line for each source. All constants are fitted to the
others again: four minutes of processor time for all. With ``--quick`` none is: a stage of constants that has
no other source keeps the starts of its factors, and the others hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Values, shipped_values
from planner.calibrate.pricing import Prediction, Price
from planner.calibrate.refit import Refit
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.stages import Stage, stages
from planner.cost.kinds import StepShares, band_of
from planner.inputs.measured_bands import Key, MeasuredBand, at_new_site
from tests.lab.bands import SiteErrors, Sites, bands_of, cell_of, release_bands_of
from tests.lab.fit_all import timed_runs


@dataclass(frozen=True)
class Held:
    """Runs of a source and their bands.

    Parameters
    ----------
    source : str
        Its name.
    runs, without : int
        Those that have a band, and those that have none. [-]
    inside, width : float
        Share of the former inside their band, and its mean. [-]
    """

    source: str
    runs: int
    without: int
    inside: float
    width: float


Priced = tuple[PricedRun, Prediction, Key]


def sources_of_stages(runs: Sequence[PricedRun]) -> list[tuple[Stage, set[str]]]:
    """Return the sources whose runs each stage takes."""
    return [(stage, {run.run.source for run in runs if stage.wanted(run)}) for stage in stages()]


def values_without(source: str, told: Sequence[tuple[Stage, set[str]]]) -> Values:
    """Return the shipped constants, at their starts where no other source tells them."""
    values = {key: value for key, value in shipped_values().items() if key[:2] != ("site", source)}
    for stage, sources in told:
        if sources == {source}:
            values |= {
                key: factor.start
                for factor in stage.factors
                if factor.key[0] != "site"
                for key in factor.keys
            }
    return values


def refitted(runs: Sequence[PricedRun]) -> Callable[[str], Values]:
    """Return what gives the constants that are fitted to the runs of all sources but one."""
    refit = Refit()
    return lambda source: refit.values([run for run in runs if run.run.source != source])


def priced_unseen(
    runs: Sequence[PricedRun], price: Price | None = None, without: Callable[[str], Values] | None = None
) -> dict[str, list[Priced]]:
    """Return each source's runs priced by what the others say, with their cells by what ships.

    ``price`` gives what the shipped constants say where that is known already; ``without`` the constants
    without a source, as `values_without` where it is not given.
    """
    price, told = price or predictions_with(shipped_values()), sources_of_stages(runs)
    without = without or (lambda source: values_without(source, told))
    found: dict[str, list[Priced]] = {}
    for source in dict.fromkeys(run.run.source for run in runs):
        own = [run for run in runs if run.run.source == source]
        unseen = predictions_with(without(source))(own)
        shipped = price(own)
        found[source] = [
            (run, one, cell_of(run, known))
            for run, one, known in zip(own, unseen, shipped, strict=True)
            if isinstance(one, Prediction) and isinstance(known, Prediction)
        ]
    return found


def held(found: dict[str, list[Priced]]) -> Iterator[Held]:
    """Yield for each source how its runs, priced unseen, lie in bands made of the others."""
    for source, own in found.items():
        bands, releases = _bands({name: rows for name, rows in found.items() if name != source})
        with (
            patch("planner.inputs.bands.measured_bands", lambda bands=bands: bands),
            patch("planner.inputs.bands.release_bands", lambda releases=releases: releases),
        ):
            pairs = [(_error(run, one), _band(run, one)) for run, one, _ in own]
        known = [(error, band) for error, band in pairs if band is not None]
        yield Held(
            source,
            len(known),
            len(pairs) - len(known),
            float(np.mean([abs(np.expm1(error)) <= band for error, band in known] or [np.nan])),
            float(np.mean([band for _, band in known] or [np.nan])),
        )


def _bands(
    found: dict[str, list[Priced]],
) -> tuple[dict[Key, MeasuredBand], dict[tuple[Key, str], MeasuredBand]]:
    cells: dict[Key, dict[str, list[Priced]]] = {}
    for source, rows in found.items():
        for row in rows:
            cells.setdefault(row[2], {}).setdefault(source, []).append(row)
    errors: dict[Key, Sites] = {
        cell: {source: _site(rows) for source, rows in sites.items()} for cell, sites in cells.items()
    }
    bands = [at_new_site(MeasuredBand(**entry)) for entry in bands_of(errors)]  # type: ignore[arg-type]
    releases = [at_new_site(MeasuredBand(**entry)) for entry in release_bands_of(errors)]  # type: ignore[arg-type]
    return {one.key: one for one in bands}, {(one.key, one.era): one for one in releases}


def _site(rows: Sequence[Priced]) -> SiteErrors:
    return SiteErrors(
        np.array([_error(run, one) for run, one, _ in rows]),
        np.array([]),
        np.array([one.extrapolated for _, one, _ in rows]),
        tuple(run.era for run, _, _ in rows),
        np.array([one.tensor_share for _, one, _ in rows]),
    )


def _error(run: PricedRun, one: Prediction) -> float:
    return float(np.log(one.step_s / (run.measured.seconds or np.nan)))


def _band(run: PricedRun, one: Prediction) -> float | None:
    used = one.total_gib / one.capacity_gib
    shares = StepShares(one.extrapolated, one.host_share, used, one.mfu, one.tensor_share)
    band = band_of(run.plan, run.job, run.runtime, shares)
    return None if band is None else band.share


def lines(runs: Sequence[PricedRun], quick: bool = False) -> Iterator[str]:
    """Yield a line for each source, and one for all."""
    rows = list(held(priced_unseen(runs, without=None if quick else refitted(runs))))
    for row in rows:
        known = f"inside {row.inside:6.1%}   width {row.width:6.1%}" if row.runs else "no band"
        yield f"{row.source:32s} {row.runs:5d} runs, {row.without:3d} without a band   {known}"
    banded = [row for row in rows if row.runs]
    every = sum(row.inside * row.runs for row in banded) / sum(row.runs for row in banded)
    mean, width = (np.mean([getattr(row, name) for row in banded]) for name in ("inside", "width"))
    yield f"mean source: inside {mean:.1%}, width {width:.1%}; of all runs {every:.1%} inside"


if __name__ == "__main__":
    for line in lines(timed_runs(Path(sys.argv[1])), "--quick" in sys.argv):
        sys.stdout.write(f"{line}\n")
