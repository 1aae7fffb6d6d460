"""The shipped stages fitted again to other runs, for predictions out of fold."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from planner.calibrate.constants import SCOPES, Key, Values, WithConstants, shipped_values
from planner.calibrate.fit import ROWS_PER_FACTOR, fit, values_of
from planner.calibrate.overlay import Overlay, predictions_of
from planner.calibrate.pricing import Price
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.stages import Stage, neutral_values, stages


@dataclass
class Refit:
    """Fits every stage to the runs that it is given; what the same runs gave before is kept.

    A stage that has too few runs keeps the starts of its factors, and a site without runs its plain shares:
    nothing is known of it. An accelerator without runs has no constants, and takes the share of its kin.
    """

    stages: Sequence[Stage] = field(default_factory=stages)
    """What is fitted, in order."""
    overlay: Overlay | None = None
    """Constants that hold whatever the runs say."""
    _known: dict[Hashable, Values] = field(default_factory=dict)

    def __call__(self, runs: Sequence[PricedRun]) -> Price:
        """Return a pricing function with constants that are fitted to these runs alone."""
        return predictions_of(self.values(runs), self.overlay)

    def values(self, runs: Sequence[PricedRun]) -> dict[Key, float]:
        """Return the constants that these runs give."""
        values = neutral_values(self.stages)
        for stage in self.stages:
            values |= self.stage_values(stage, stage.runs_of(runs), values)
        seen = {SCOPES["accelerator"](run) for run in runs}
        return {key: value for key, value in values.items() if key[0] != "accelerator" or key[1] in seen}

    def stage_values(self, stage: Stage, runs: Sequence[PricedRun], fixed: Values) -> Values:
        """Return the constants of one stage."""
        if len(runs) < ROWS_PER_FACTOR * len(stage.factors):
            kept = [factor for factor in stage.factors if factor.key[0] != "site"]
            return values_of(kept, [factor.start for factor in kept])
        about = (stage.name, tuple(run.run.id for run in runs), constants_of(runs, fixed))
        if about not in self._known:
            kind = (stage.measure, stage.soft, shipped_values())
            self._known[about] = fit(runs, stage.factors, fixed, *kind).values
        return self._known[about]


def constants_of(runs: Sequence[PricedRun], values: Values) -> Hashable:
    """Return the constants that the prices of runs depend on, by what each run is.

    Of other accelerators' shares that is what an accelerator without one of its own takes from them.
    """
    constants = WithConstants(values)
    found: dict[Hashable, Hashable] = {}
    for run in runs:
        kind = tuple(owner(run) for owner in SCOPES.values())
        if kind not in found:
            found[kind] = constants.of_runtime(run), constants.of_cluster(run)
    return tuple(found.items())
