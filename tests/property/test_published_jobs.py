"""Public recipes as a test of the search: what the document says of them holds with the prices of today."""

from __future__ import annotations

import math
from functools import cache

import pytest

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import shipped_values
from planner.calibrate.pricing import Prediction
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun, prepared
from planner.cost.estimate import Estimate
from planner.cost.price import price
from tests.deep import in_turn
from tests.published_jobs.page import DOCUMENT, END, START, SUMS, evenly, tables_of
from tests.published_jobs.rows import TABLES, recipes
from tests.published_jobs.trial import Trial, read_trials, searched, trial_of

TRIALS = read_trials()
BY_ID = {trial.id: trial for trial in TRIALS}


@cache
def runs_of() -> dict[str, list[PricedRun]]:
    """Return the recipes of each table, which take a second to price."""
    return {table: runs for table, runs, _ in recipes()}


def counted(name: str) -> tuple[int, int]:
    among, counts = SUMS[name]
    asked = [trial for trial in TRIALS if among(trial)]
    return sum(counts(trial) for trial in asked), len(asked)


def test_every_recipe_of_every_table_is_on_trial() -> None:
    assert {run.run.id for runs in runs_of().values() for run in runs} == set(BY_ID)
    assert {trial.table for trial in TRIALS} == set(TABLES)


def test_the_document_has_the_tables_of_the_trials() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text[text.index(START) + len(START) : text.index(END)].strip() == tables_of(TRIALS)


@pytest.mark.parametrize("table", TABLES)
def test_estimate_and_validate_give_the_same_seconds(table: str) -> None:
    runs = runs_of()[table]
    runs = runs[:: max(1, len(runs) // 8)]
    for run, found in zip(runs, _validated(runs), strict=True):
        answer = price(run.plan, run.job, run.runtime)
        assert isinstance(answer, Estimate)
        assert answer.step == pytest.approx(found.step_s, rel=1e-9), run.run.id


def _validated(runs: list[PricedRun]) -> list[Prediction]:
    """Price rows as `planner validate` does."""
    ready = prepared([run.run for run in runs], shipped_catalogue(), [])
    found = [one for one in predictions_with(shipped_values())(ready) if isinstance(one, Prediction)]
    assert len(found) == len(runs)
    return found


@pytest.mark.parametrize("table", TABLES)
def test_trials_have_the_prices_of_today(table: str) -> None:
    for run in runs_of()[table]:
        answer = price(run.plan, run.job, run.runtime)
        assert isinstance(answer, Estimate)
        assert BY_ID[run.run.id].priced_s == pytest.approx(answer.step, rel=0.01), run.run.id


@pytest.mark.parametrize(("table", "third"), in_turn(TABLES, range(3)))
def test_a_search_is_no_slower_than_a_published_layout_that_may_be_its_answer(table: str, third: int) -> None:
    runs = runs_of()[table]
    run = runs[third * len(runs) // 3]
    trial = trial_of(table, run, searched(run))
    assert not trial.stands or not trial.best_s or trial.gain >= -0.01, trial
    assert math.isclose(trial.best_s, BY_ID[trial.id].best_s, rel_tol=0.01)


def test_searches_are_no_slower_than_published_layouts() -> None:
    lost, asked = counted("search over 1% slower")
    assert asked > 300
    assert lost == 0


def test_few_published_layouts_are_called_out_of_memory() -> None:
    full, asked = counted("called out of memory")
    assert full <= 0.02 * asked


def test_the_sample_is_spread_over_all() -> None:
    own: list[Trial] = TRIALS[:17]
    assert [own.index(one) for one in evenly(own)] == [0, 2, 5, 8, 11, 14]
