"""The same runs priced under many constants: what a change does not touch keeps its price."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from planner.calibrate.constants import Values, WithConstants
from planner.calibrate.pricing import Prediction, Price, batch_key, batch_predictions, skipped
from planner.calibrate.runs.defaults import PricedRun, Skip
from planner.dataclasses import replace
from planner.errors import PlannerError
from planner.inputs.hardware import HardwareProfile

MOST = 4096
"""Batches' prices that are kept before all are forgotten."""

Prices = list[Prediction | Skip]


class Batches:
    """Runs in batches, and the prices of each under the constants that are its own."""

    def __init__(self, runs: tuple[PricedRun, ...]) -> None:
        self.runs = runs
        self._places: dict[frozenset[str], list[list[int]]] = {}
        self._known: dict[tuple[Hashable, ...], Prices] = {}
        self._clusters: dict[tuple[Hashable, ...], HardwareProfile] = {}

    def predictions(self, values: Values) -> Prices:
        """Return the prediction of each run with these constants."""
        constants = WithConstants(values)
        found: Prices = [Skip("", "")] * len(self.runs)
        for places in self._batches(constants.sites):
            first = self.runs[places[0]]
            own = constants.of_runtime(first), constants.of_cluster(first)
            key = (places[0], len(places), *own)
            if key not in self._known:
                if len(self._known) >= MOST:
                    self._known.clear()
                self._known[key] = self._priced(places, constants, own[1])
            for place, price in zip(places, self._known[key], strict=True):
                found[place] = price
        return found

    def _batches(self, sites: frozenset[str]) -> list[list[int]]:
        """Return the places of the runs of each batch; runs of a site with constants are apart."""
        if sites not in self._places:
            groups: dict[Hashable, list[int]] = {}
            for place, run in enumerate(self.runs):
                site = run.run.source if run.run.source in sites else ""
                groups.setdefault((batch_key(run), run.era, run.stated, site), []).append(place)
            self._places[sites] = list(groups.values())
        return self._places[sites]

    def _priced(self, places: list[int], constants: WithConstants, own: Hashable) -> Prices:
        """Return the prices of one batch, whose first run has the records of all."""
        members = [self.runs[place] for place in places]
        first = members[0]
        about = (id(first.job.hardware), own)
        if about not in self._clusters:
            self._clusters[about] = constants.job(first).hardware
        job = replace(first.job, hardware=self._clusters[about])
        changed = replace(first, runtime=constants.runtime(first), job=job)
        try:
            return list(batch_predictions([changed, *members[1:]]))
        except PlannerError as error:
            return [skipped(run, error) for run in members]


_MADE: dict[tuple[int, ...], Batches] = {}
_MOST_MADE = 64


def batches_of(runs: Sequence[PricedRun]) -> Batches:
    """Return runs in batches: the same for the same records, which are kept alive."""
    key = tuple(map(id, runs))
    if key not in _MADE:
        if len(_MADE) >= _MOST_MADE:
            _MADE.clear()
        _MADE[key] = Batches(tuple(runs))
    return _MADE[key]


def predictions_with(values: Values) -> Price:
    """Return a pricing function with these constants."""
    return lambda runs: batches_of(runs).predictions(values)
