"""Predicted against measured, for a table of runs: prepare each row, price it, and score the whole."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal

from planner.calibrate.pricing import Prediction, Price, naive_seconds
from planner.calibrate.runs.catalogue import Catalogue
from planner.calibrate.runs.defaults import PricedRun, Skip, prepared
from planner.calibrate.runs.table import Fault, Run
from planner.calibrate.scores import (
    GROUP_KEYS,
    Json,
    Scored,
    group_scores,
    memory_scores,
    naive_scores,
    oom_scores,
    source_scores,
    time_scores,
)
from planner.cost.settings import settings_of
from planner.dataclasses import dataclass

SCHEMA: Final = "planner/validate/1"
NO_ROWS: Final = '"per_row": []'
"""Where rows belong in the text of a document without them; inside a string its quotes would be escaped."""
CHUNK: Final = 4096
"""Rows that are priced together. [-]"""

Fold = Literal["source", "model", "accelerator"]
Fit = Callable[[Sequence[PricedRun]], Price]
"""Makes a pricing function whose constants are fitted to the given runs."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is kept of a priced row: little, since a table may have a million."""

    scored: Scored
    """Measured and predicted."""
    oom_probability: float | None
    error_band: float | None
    """As predicted; None where unknown. [-]"""
    runtime: str
    era: str
    """By whose behaviour it was priced."""
    defaults: tuple[tuple[str, object], ...]
    """Values taken for blanks, (column, value); rows with the same share them."""
    release: str = ""
    """The release that the row names; empty where none."""
    settings: tuple[tuple[str, str | None], ...] = ()
    """The runtime's settings that matter, (name, value)."""


@dataclass(frozen=True)
class Validation:
    """All rows of a table, priced or skipped."""

    rows: int
    outcomes: tuple[Outcome, ...]
    skipped: tuple[Skip, ...]

    @property
    def scored(self) -> list[Scored]:
        """The rows as they are scored."""
        return [outcome.scored for outcome in self.outcomes]


def validate(rows: Iterable[Run | Fault], catalogue: Catalogue, price: Price) -> Validation:
    """Price every row of a table that can be priced.

    ``rows``: the table, read one row at a time; ``catalogue``: where rows find models, clusters and runtimes.
    """
    outcomes: list[Outcome] = []
    skipped: list[Skip] = []
    count = 0
    for chunk in _chunks(rows):
        count += len(chunk)
        ready = prepared(chunk, catalogue, skipped)
        for outcome in _outcomes(ready, price(ready)):
            if isinstance(outcome, Skip):
                skipped.append(outcome)
            else:
                outcomes.append(outcome)
    return Validation(count, tuple(outcomes), tuple(skipped))


def validate_out_of_fold(
    rows: Iterable[Run | Fault],
    catalogue: Catalogue,
    fit: Fit,
    fold: Fold | Callable[[PricedRun], str],
    tell: Callable[[str], object] = lambda line: None,
) -> Validation:
    """Price every row with constants fitted to the rows of the other sources, models or accelerators.

    ``catalogue``: where rows find models, clusters and runtimes; ``fit``: fits on the rows outside the fold;
    ``fold``: ``source`` or ``model`` or ``accelerator``: what a fold's rows have in common; ``tell``: takes a
    line after each fold.
    """
    table = list(rows)
    skipped: list[Skip] = []
    ready = prepared(table, catalogue, skipped)
    folds: dict[str, list[PricedRun]] = {}
    for priced in ready:
        folds.setdefault(_fold_of(priced, fold), []).append(priced)
    outcomes: dict[str, Outcome] = {}
    for number, (name, members) in enumerate(folds.items(), start=1):
        began = time.monotonic()
        others = [priced for other, runs in folds.items() if other != name for priced in runs]
        for outcome in _outcomes(members, fit(others)(members)):
            if isinstance(outcome, Skip):
                skipped.append(outcome)
            else:
                outcomes[outcome.scored.id] = outcome
        seconds = time.monotonic() - began
        what = "kind" if callable(fold) else fold
        tell(f"fold {number} of {len(folds)}: {len(members)} rows without {what} {name!r}, {seconds:.1f} s")
    ordered = (outcomes[priced.run.id] for priced in ready if priced.run.id in outcomes)
    return Validation(len(table), tuple(ordered), tuple(skipped))


def _fold_of(priced: PricedRun, fold: Fold | Callable[[PricedRun], str]) -> str:
    """Return what a run has in common with the others of its fold."""
    if callable(fold):
        return fold(priced)
    if fold == "accelerator":
        return priced.job.hardware.pool.accelerator.name
    return str(getattr(priced.run, fold)).lower()


def _chunks(rows: Iterable[Run | Fault]) -> Iterator[list[Run | Fault]]:
    source = iter(rows)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


def _outcomes(
    ready: Sequence[PricedRun], predictions: Sequence[Prediction | Skip]
) -> Iterator[Outcome | Skip]:
    for priced, found, naive in zip(ready, predictions, naive_seconds(ready), strict=True):
        yield found if isinstance(found, Skip) else _outcome(priced, found, naive)


def _outcome(priced: PricedRun, found: Prediction, naive: float) -> Outcome:
    return Outcome(
        scored=scored(priced, found, naive),
        oom_probability=found.oom_probability if math.isfinite(found.oom_probability) else None,
        error_band=found.error_band,
        runtime=priced.runtime.name,
        era=priced.era,
        defaults=_shared(tuple(priced.defaults.items())),
        release=priced.release,
        settings=_shared(tuple(settings_of(priced.job, priced.runtime).items())),
    )


@lru_cache(maxsize=65536)
def _named(defaults: tuple[tuple[str, object], ...]) -> Json:
    """Return defaults by column; rows with the same ones share the mapping."""
    return dict(defaults)


@lru_cache(maxsize=65536)
def _shared(value: tuple[object, ...]) -> tuple[Any, ...]:
    """Return the tuple seen first of all that are equal."""
    return value


def scored(priced: PricedRun, found: Prediction, naive: float | None = None) -> Scored:
    """Return a row as it is scored.

    A row that prints a speed or a memory did not run out of memory, unless it says so.
    """
    run = priced.run
    ran = priced.measured.seconds is not None or run.peak_mem_gib is not None
    key: tuple[Hashable, ...] = _shared(tuple(getattr(run, name) for name in GROUP_KEYS))
    memory = found.by_counter(run.memory_kind) if run.peak_mem_gib else None
    return Scored(
        id=run.id,
        source=run.source,
        key=key,
        measured_s=priced.measured.seconds,
        predicted_s=found.step_s if math.isfinite(found.step_s) and found.step_s > 0 else None,
        naive_s=naive,
        tokens=(run.seq_len or 0) * (run.global_batch or 0) / (run.num_gpus or 1),
        measured_gib=run.peak_mem_gib,
        predicted_gib=memory,
        memory_kind=run.memory_kind,
        measured_oom=bool(run.oom) if run.oom is not None else (False if ran else None),
        predicted_oom=found.oom,
        mark=run.mark,
        oom_probability=found.oom_probability,
    )


def json_parts(result: Validation) -> Iterator[str]:
    """Yield the text of ``planner/validate/1``, a row at a time since a table may have a million."""
    head, empty, tail = json.dumps(as_json(result, rows=False), allow_nan=False).partition(NO_ROWS)
    yield head + empty[:-1]
    for place, outcome in enumerate(result.outcomes):
        yield (", " if place else "") + json.dumps(per_row(outcome), allow_nan=False)
    yield empty[-1] + tail


def as_json(result: Validation, rows: bool = True) -> Json:
    """Return a validation as ``planner/validate/1``; ``per_row`` is empty where no ``rows`` are wanted."""
    return _document(result, [per_row(outcome) for outcome in result.outcomes] if rows else [])


def _document(result: Validation, per_row: list[Json]) -> Json:
    rows = result.scored
    ordinary = [row for row in rows if not row.mark]
    document: Json = {
        "schema": SCHEMA,
        "rows": result.rows,
        "priced": len(rows),
        "skipped": [{"id": skip.id, "reason": skip.reason} for skip in result.skipped],
        "step_time": time_scores(rows),
        "memory": memory_scores(rows),
        "oom": oom_scores(rows),
        "naive": naive_scores(rows),
        "groups": group_scores(rows),
        "sources": source_scores(rows),
        "per_row": per_row,
    }
    if len(ordinary) < len(rows):
        document["unmarked"] = time_scores(ordinary) | {"oom": oom_scores(ordinary)}
    return document


def per_row(outcome: Outcome) -> Json:
    """Return one row's measurement, prediction and the values taken for its blanks."""
    row = outcome.scored
    return {
        "id": row.id,
        "measured_s": row.measured_s,
        "predicted_s": row.predicted_s,
        "measured_gib": row.measured_gib,
        "predicted_gib": row.predicted_gib,
        "memory_kind": row.memory_kind or None,
        "measured_oom": row.measured_oom,
        "predicted_oom": row.predicted_oom,
        "oom_probability": outcome.oom_probability,
        "error_band": outcome.error_band,
        "runtime": outcome.runtime,
        "era": outcome.era,
        "release": outcome.release or None,
        "settings": dict(outcome.settings),
        "mark": row.mark or None,
        "defaults": _named(outcome.defaults),
    }
