"""A folder of run tables priced for the accuracy page, with the shipped constants and out of fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import Key, shipped_values
from planner.calibrate.fit import ROWS_PER_FACTOR, mean_error
from planner.calibrate.refit import Refit
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.calibrate.runs.table import Fault, Run, read_runs
from planner.calibrate.stages import stages
from planner.calibrate.validate import Validation, validate, validate_out_of_fold
from tests.lab.accuracy.lines import Accuracy, Left, family
from tests.lab.folds import WITHOUT_FOLDS, out_of_group_errors


def read_folder(folder: Path) -> list[Run | Fault]:
    """Return the rows of all tables of a folder."""
    rows: list[Run | Fault] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            rows += read_runs(lines, path.name).rows
    return rows


def accuracy_of(
    rows: Sequence[Run | Fault],
    folds: Sequence[Left] = (),
    tell: Callable[[str], object] = lambda line: None,
    inside: Validation | None = None,
) -> Accuracy:
    """Price rows with the shipped constants, and out of fold where asked for.

    ``inside`` is what the shipped constants say where that is known already.
    """
    catalogue = shipped_catalogue()
    inside = inside or validate(rows, catalogue, predictions_with(shipped_values()))
    refit = Refit()
    outside = {
        fold: validate_out_of_fold(
            rows, catalogue, refit, _family if fold == "family" else fold, tell
        ).outcomes
        for fold in folds
    }
    errors = errors_out_of_group(rows, tell) if folds else {}
    return Accuracy(len(rows), inside.outcomes, inside.skipped, outside, errors)


def _family(run: PricedRun) -> str:
    return family(run.run.model)


def errors_out_of_group(
    rows: Sequence[Run | Fault], tell: Callable[[str], object] = lambda line: None
) -> dict[Key, float]:
    """Return each constant's error out of group: its stage's runs, priced without their own group. [-]

    Parameters
    ----------
    rows : sequence of Run or Fault
        The tables.
    tell : callable
        Takes a line after each stage.
    """
    runs = prepared(rows, shipped_catalogue(), [])
    errors: dict[Key, float] = {}
    for stage in stages():
        wanted = stage.runs_of(runs)
        if len(wanted) < ROWS_PER_FACTOR * len(stage.factors):
            continue
        keys = {factor.key for factor in stage.factors}
        fixed = {key: value for key, value in shipped_values().items() if key not in keys}
        error = mean_error(
            out_of_group_errors(wanted, stage.factors, stage.group, fixed, WITHOUT_FOLDS, stage.measure)
        )
        tell(f"{stage.name}: {len(wanted)} runs, {error:.1%} out of group")
        errors |= dict.fromkeys(keys, error)
    return errors
