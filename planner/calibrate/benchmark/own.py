"""Predictions of the planner itself, and of the rule of thumb, for rows without results."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from planner.calibrate.benchmark.predictions import PredictedRow
from planner.calibrate.pricing import Prediction, Price, naive_seconds
from planner.calibrate.runs.catalogue import Catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepared
from planner.calibrate.runs.table import Fault, Run

By = Literal["planner", "rule-of-thumb"]

ASKED: Final = {"oom": 0}
"""What a row without a result is taken to have, so that it is prepared like one that ran."""


def own_predictions(
    rows: Iterable[Run | Fault], catalogue: Catalogue, price: Price, by: By, skipped: list[Skip]
) -> dict[str, PredictedRow]:
    """Return predictions by the key of their row; what cannot be priced goes to ``skipped``."""
    asked = (row if isinstance(row, Fault) else row.with_values(ASKED) for row in rows)
    ready = prepared(asked, catalogue, skipped)
    if by == "rule-of-thumb":
        times = zip(ready, naive_seconds(ready), strict=True)
        return {one.run.id: PredictedRow(step_s=seconds) for one, seconds in times}
    return _priced(ready, price(ready), skipped)


def _priced(
    ready: Sequence[PricedRun], found: Sequence[Prediction | Skip], skipped: list[Skip]
) -> dict[str, PredictedRow]:
    answers = {}
    for one, prediction in zip(ready, found, strict=True):
        if isinstance(prediction, Skip):
            skipped.append(prediction)
            continue
        answers[one.run.id] = PredictedRow(
            prediction.step_s if math.isfinite(prediction.step_s) else None,
            prediction.by_counter(one.run.memory_kind),
            not prediction.oom,
        )
    return answers
