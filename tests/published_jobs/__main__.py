"""All public recipes on trial: ``python -m tests.published_jobs`` searches their jobs, writes the document.

With ``--page`` only the document is written again, from the trials that are there; with ``--kinds`` the kinds
of plan that measured runs have are counted first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import yaml

from planner.calibrate.constants import WithConstants, shipped_values
from planner.calibrate.pricing import Prediction, cost_predictions
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.calibrate.runs.table import Run, read_runs
from planner.cost.kinds import kinds_of
from planner.cost.settings import Where, settings_run, where
from planner.inputs.fitted import fitted_file
from planner.inputs.measured_bands import HOST, regime_of
from planner.search.result import SearchResult
from tests.published_jobs.page import write_page
from tests.published_jobs.rows import EXTRACT, OWN, recipes
from tests.published_jobs.trial import TRIALS, Trial, job_key, read_trials, searched, trial_of, write_trials

HEAD: Final = """\
# Kinds of plan and settings that measured runs have, counted by: python -m tests.published_jobs --kinds
# runs: timed rows of tests/measured/runs and tests/published_jobs/runs, those marked left out.
# error: what 90% of prices are off by at most, of runs that wait for no host where any do not. [-]
"""


def count_kinds() -> None:
    """Write how many measured runs there are of each kind."""
    paths = [*sorted(EXTRACT.glob("*.csv")), *sorted(OWN.glob("*.csv"))]
    runs: list[PricedRun] = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in read_runs(lines, path.name).rows if isinstance(row, Run) and not row.mark]
        runs += prepared(rows, shipped_catalogue(), [])
    timed = [run for run in WithConstants(shipped_values())(runs) if run.measured.seconds and not run.run.oom]
    errors: dict[tuple[Where, str], list[tuple[bool, float]]] = {}
    set_so: Counter[tuple[Where, str]] = Counter()
    for run, price in zip(timed, cost_predictions(timed), strict=True):
        if isinstance(price, Prediction) and run.measured.seconds:
            here = where(run.job, run.runtime)
            set_so.update((here, one) for one in settings_run(run.plan, run.job, run.runtime))
            waits = regime_of(run.job.hardware.pool, run.job.gpus, price.host_share, price.mfu) == HOST
            for kind in kinds_of(run.plan, run.job):
                error = abs(price.step_s / run.measured.seconds - 1.0)
                errors.setdefault((here, kind), []).append((waits, error))
    of = ("core", "chip", "experts")
    entries = [
        {
            **dict(zip(of, here, strict=True)),
            "kind": kind,
            "runs": len(found),
            "error": round(_nine_of_ten(found), 3),
        }
        for (here, kind), found in sorted(errors.items())
    ]
    settings = [
        {**dict(zip(of, here, strict=True)), "setting": setting, "runs": runs}
        for (here, setting), runs in sorted(set_so.items())
    ]
    text = HEAD + yaml.safe_dump({"kinds": entries, "settings": settings}, sort_keys=False)
    fitted_file("kinds").write_text(text, encoding="utf-8")


def _nine_of_ten(found: Sequence[tuple[bool, float]]) -> float:
    """Return what 90% of runs stay below; tests of tiny models say nothing of others of a kind. [-]"""
    busy = [error for waits, error in found if not waits]
    return float(np.quantile(busy or [error for _, error in found], 0.9))


def all_trials() -> list[Trial]:
    """Search the job of every recipe; recipes of one job share a search."""
    found: list[Trial] = []
    for table, runs, skipped in recipes():
        known: dict[tuple[object, ...], SearchResult] = {}
        for run in runs:
            if job_key(run) not in known:
                known[job_key(run)] = searched(run)
            found.append(trial_of(table, run, known[job_key(run)]))
        sys.stderr.write(f"{table}: {len(runs)} recipes, {len(known)} jobs, {len(skipped)} without a price\n")
        sys.stderr.flush()
    return found


def main() -> None:
    """Do what the arguments say."""
    if "--kinds" in sys.argv:
        count_kinds()
    elif "--page" not in sys.argv:
        write_trials(all_trials())
    if TRIALS.is_file():
        write_page(read_trials())


if __name__ == "__main__":
    main()
