"""Repeats of one layout among a site's runs: they tell its time better, and nothing of other layouts."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from planner.calibrate.fit import Column
from planner.calibrate.runs.defaults import PricedRun
from planner.dataclasses import replace


def layouts_of(runs: Sequence[PricedRun]) -> list[list[int]]:
    """Return the places of the runs of each layout: all that is priced alike."""
    places: dict[Hashable, list[int]] = {}
    for place, run in enumerate(runs):
        work = tuple(run.job.workload.model_dump().items())
        key = (run.plan, id(run.job.model), id(run.job.hardware), run.job.gpus, work, id(run.runtime))
        places.setdefault(key, []).append(place)
    return list(places.values())


def merged(runs: Sequence[PricedRun]) -> list[PricedRun]:
    """Return a run for each layout, with the geometric mean of the times of its repeats."""
    single = []
    for places in layouts_of(runs):
        first = runs[places[0]]
        times = [runs[place].measured.seconds or 0.0 for place in places]
        mean = times[0] if len(times) == 1 else float(np.exp(np.mean(np.log(times))))
        single.append(replace(first, measured=replace(first.measured, seconds=mean)))
    return single


def each_run(runs: Sequence[PricedRun], errors: Column | None) -> Column | None:
    """Return the logarithmic error of each run from that of its layout. [-]"""
    if errors is None:
        return None
    found = np.zeros(len(runs))
    for places, single, error in zip(layouts_of(runs), merged(runs), errors, strict=True):
        for place in places:
            found[place] = error + np.log(
                (single.measured.seconds or 1.0) / (runs[place].measured.seconds or 1.0)
            )
    return found


def worst_of_each(runs: Sequence[PricedRun], errors: Column) -> Column:
    """Return the largest error among the repeats of each layout. [-]"""
    return np.array(
        [errors[max(places, key=lambda place: abs(errors[place]))] for places in layouts_of(runs)]
    )
