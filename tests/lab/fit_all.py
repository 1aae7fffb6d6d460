"""Fit every shipped constant: ``python -m tests.lab.fit_all RUNS_DIR``.

Reads all run tables of a folder, fits stage after stage, and writes constants and error bands to
``hardware_profiles/fitted/``: the same bytes each time on one machine.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from planner.calibrate.constants import Key
from planner.calibrate.fit import Factor, Fitted, fit, mean_error
from planner.calibrate.refit import Refit
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.calibrate.runs.table import read_runs
from planner.calibrate.stages import Stage, neutral_values, stages
from planner.inputs.fitted import Constant, all_constants, fitted_file
from tests.lab.bands import bands_of, coverage_of, inside_of, release_bands_of, site_errors
from tests.lab.folds import WITHOUT_FOLDS, out_of_group_errors
from tests.lab.lent_curves import lent_errors

HEADER = """# Fitted to measured training runs by: python -m tests.lab.fit_all RUNS_DIR
# standard_error is that of the logarithm; without is the error out of group with the constant left out.
"""


def timed_runs(folder: Path) -> list[PricedRun]:
    """Return the runs of all tables in a folder that have a time and no mark."""
    return [run for run in known_runs(folder) if run.measured.seconds]


def known_runs(folder: Path) -> list[PricedRun]:
    """Return the runs of all tables in a folder that have no mark, with those that ran out of memory."""
    catalogue = shipped_catalogue()
    runs: list[PricedRun] = []
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(read_runs(lines, path.name).rows)
        runs += [run for run in prepared(rows, catalogue, []) if not run.run.mark]
    return runs


def constants_of(
    stage: Stage, runs: Sequence[PricedRun], found: Fitted, fixed: dict[Key, float]
) -> list[Constant]:
    """Return a stage's constants, each with what the error out of group is without it."""
    tables = ", ".join(sorted({run.run.source for run in runs}))
    source = f"{stage.source} ({tables})"
    warm = [replace(factor, start=found.values[factor.key]) for factor in stage.factors]
    constants = []
    for factor in stage.factors:
        first = Constant(
            *factor.key,
            value=found.values[factor.key],
            standard_error=found.standard_errors[factor.key],
            rows=len(runs),
            source=source,
            meaning=factor.meaning,
            without=float(f"{_error_without(factor, warm, stage, runs, fixed):.3g}"),
        )
        constants += [first, *(replace(first, **_shared(key, factor)) for key in factor.shared)]
    return constants


def _shared(key: Key, factor: Factor) -> dict[str, Any]:
    """Fields in which a constant of another owner differs from the one whose value it takes."""
    meaning = f"{factor.meaning}, shared with {factor.key[0]} {factor.key[1]}"
    return {"scope": key[0], "owner": key[1], "name": key[2], "meaning": meaning, "without": None}


def _error_without(
    left_out: Factor, warm: Sequence[Factor], stage: Stage, runs: Sequence[PricedRun], fixed: dict[Key, float]
) -> float:
    others = [factor for factor in warm if factor.key != left_out.key]
    kind = (stage.measure, stage.soft)
    return mean_error(out_of_group_errors(runs, others, stage.group, fixed, WITHOUT_FOLDS, *kind))


@dataclass
class Outcome:
    """Everything that a run of all stages finds.

    Parameters
    ----------
    constants : list of Constant
        Every fitted constant.
    report : list of str
        A line for each stage.
    """

    constants: list[Constant] = field(default_factory=list)
    report: list[str] = field(default_factory=list)


def fit_all(runs: Sequence[PricedRun], only: Sequence[str] = ()) -> Outcome:
    """Fit all stages, one after the other; where ``only`` names some, with the others as they ship.

    Either way the constants of a stage are plain before it: what is left without one is told against that.
    """
    shipped = {(entry.scope, entry.owner, entry.name): entry for entry in all_constants()}
    plain = neutral_values(stages())
    values = plain | ({key: entry.value for key, entry in shipped.items()} if only else {})
    outcome = Outcome()
    for stage in stages():
        if only and stage.name not in only:
            outcome.constants += [shipped[key] for key in stage_keys(stage) if key in shipped]
            continue
        wanted = stage.runs_of(runs)
        before = mean_error(stage.measure(wanted, values))
        values = {key: value for key, value in values.items() if key not in stage_keys(stage)} | {
            key: plain[key] for key in stage_keys(stage) if key in plain
        }
        found = fit(wanted, stage.factors, values, stage.measure, stage.soft)
        kind = (stage.measure, stage.soft)
        outside = out_of_group_errors(wanted, stage.factors, stage.group, values, 4, *kind)
        outcome.constants += constants_of(stage, wanted, found, values)
        values |= dict(found.values)
        outcome.report.append(
            f"{stage.name}: {len(wanted)} runs, error {before:.1%} before, {found.error:.1%} fitted, "
            f"{mean_error(outside):.1%} out of group"
        )
        sys.stderr.write(f"{outcome.report[-1]}\n")
    return outcome


def stage_keys(stage: Stage) -> list[Key]:
    """Return the keys of a stage's constants, those that share a value among them."""
    return [key for factor in stage.factors for key in (factor.key, *factor.shared)]


def main(arguments: Sequence[str]) -> int:
    """Fit and write; return the exit code."""
    folder, *only = arguments or ("",)
    unknown = set(only) - {stage.name for stage in stages()}
    if unknown or not Path(folder).is_dir():
        names = "; ".join(stage.name for stage in stages())
        usage = "usage: python -m tests.lab.fit_all RUNS_DIR [STAGE ...]"
        sys.stderr.write(f"{usage}; stages: {names}\n")
        return 2
    runs = known_runs(Path(folder))
    found = fit_all(runs, only).constants
    write("constants", {"constants": [asdict(entry) for entry in found]})
    if only:
        return 0
    fit_bands([run for run in runs if run.measured.seconds])
    return 0


def fit_bands(timed: Sequence[PricedRun]) -> None:
    """Fit and write the bands of runs with a time, each source left out in turn."""
    errors = site_errors(timed, Refit(), lambda line: sys.stderr.write(f"{line}\n"))
    told = {"bands": bands_of(errors), "coverage": coverage_of(errors), "lent_curves": lent_errors()}
    write("bands", told)
    write("release_bands", {"inside": inside_of(errors), "bands": release_bands_of(errors)})


def write(name: str, content: Mapping[str, object]) -> None:
    """Write a file of what was fitted."""
    text = HEADER + yaml.safe_dump(dict(content), sort_keys=False, width=110)
    fitted_file(name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
