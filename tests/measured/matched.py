"""Measured runs that differ in one column alone, with what the cost model says of both."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from types import MappingProxyType

from planner.calibrate.batches import predictions_with
from planner.calibrate.constants import shipped_values
from planner.calibrate.pricing import Prediction, Skip
from planner.calibrate.runs.catalogue import shipped_catalogue
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.validate import Validation, validate
from tests.lab.accuracy.runs import read_folder

RUNS = Path(__file__).parent / "runs"
COLUMNS = (
    "source", "gpu", "num_gpus", "model", "num_layers", "hidden", "heads", "seq_len", "framework", "tp", "pp",
    "vpp", "cp", "ep", "dp", "zero", "seq_parallel", "micro_batch", "global_batch", "recompute", "flash_attn",
    "fused_norm", "precision", "schedule", "overlap", "offload",
)  # fmt: skip
"""What decides a run; rows that are equal in all but one are a pair."""

Priced = tuple[PricedRun, Prediction]


@cache
def _read() -> tuple[Validation, dict[str, tuple[PricedRun, Prediction | Skip]]]:
    known: dict[str, tuple[PricedRun, Prediction | Skip]] = {}
    rows = 0

    def price(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
        nonlocal rows
        prices = list(predictions_with(shipped_values())(runs))
        rows += len(runs)
        known.update({run.run.id: (run, one) for run, one in zip(runs, prices, strict=True)})
        return prices

    found = validate(read_folder(RUNS), shipped_catalogue(), price)
    assert len(known) == rows
    return found, known


def validated() -> Validation:
    """Return what the shipped constants say of the extract, which is read and priced once for all tests."""
    return _read()[0]


def carried() -> dict[str, tuple[PricedRun, Prediction | Skip]]:
    """Return the rows of the extract that can be prepared, each with its price, by their ids."""
    return _read()[1]


def timed() -> list[PricedRun]:
    """Return the rows that have a time and no mark, as `timed_runs` reads them."""
    return [run for run, _ in carried().values() if run.measured.seconds and not run.run.mark]


def known_prices(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
    """Price rows of the extract with the shipped constants, once for all tests."""
    return [carried()[run.run.id][1] for run in runs]


@cache
def priced() -> tuple[Priced, ...]:
    """Return the unmarked rows of the extract with their predictions."""
    found = ((run, price) for run, price in carried().values() if not run.run.mark)
    return tuple((run, price) for run, price in found if isinstance(price, Prediction))


@dataclass(frozen=True)
class Pair:
    """Two rows: the second over the first, as measured and as predicted."""

    ids: tuple[str, str]
    measured: float
    predicted: float

    @property
    def error(self) -> float:
        """How far the predicted ratio is from the measured one. [-]"""
        return self.predicted / self.measured - 1


@dataclass(frozen=True)
class Effect:
    """What one change does over all pairs of rows.

    Parameters
    ----------
    pairs : tuple of Pair
        The rows.
    """

    pairs: tuple[Pair, ...]

    @property
    def measured(self) -> float:
        """Median measured ratio. [-]"""
        return median(pair.measured for pair in self.pairs)

    @property
    def predicted(self) -> float:
        """Median predicted ratio. [-]"""
        return median(pair.predicted for pair in self.pairs)

    @property
    def error(self) -> float:
        """Error of the median ratio. [-]"""
        return self.predicted / self.measured - 1

    def agreeing(self, least: float = 0.03) -> float:
        """Share of the pairs that differ by more than repeats do, whose direction is right. [-]"""
        clear = [pair for pair in self.pairs if abs(math.log(pair.measured)) > least]
        return sum((pair.predicted > 1) == (pair.measured > 1) for pair in clear) / len(clear)


Value = Callable[[Priced], tuple[float | None, float]]


def step_seconds(row: Priced) -> tuple[float | None, float]:
    """Return measured and predicted seconds per step."""
    return row[0].measured.seconds, row[1].step_s


def peak_memory(row: Priced) -> tuple[float | None, float]:
    """Return measured and predicted peak memory by the row's own counter."""
    run = row[0].run
    return run.peak_mem_gib, row[1].by_counter(run.memory_kind)


def effect(
    source: str,
    column: str,
    change: tuple[object, object],
    free: Sequence[str] = (),
    value: Value = step_seconds,
    where: Mapping[str, object] = MappingProxyType({}),
) -> Effect:
    """Return what a change of one column does.

    Parameters
    ----------
    source : str
        Source of the rows; several by a common start.
    column : str
        What changes.
    change : tuple
        From and to.
    free : sequence of str
        Columns that follow from it and may differ.
    value : callable
        What is compared.
    where : mapping
        Columns to the value that rows must have.
    """
    groups: dict[tuple[object, ...], dict[object, Priced]] = {}
    for row in priced():
        run = row[0].run
        if not all(getattr(run, name) == wanted for name, wanted in where.items()):
            continue
        if run.source.startswith(source) and value(row)[0]:
            key = tuple(getattr(run, name) for name in COLUMNS if name not in (column, *free))
            groups.setdefault(key, {}).setdefault(getattr(run, column), row)
    pairs = [
        _pair(members[change[0]], members[change[1]], value)
        for members in groups.values()
        if change[0] in members and change[1] in members
    ]
    return Effect(tuple(pairs))


def _pair(first: Priced, second: Priced, value: Value) -> Pair:
    (measured, predicted), (other_measured, other_predicted) = value(first), value(second)
    ids = (first[0].run.id, second[0].run.id)
    return Pair(ids, (other_measured or 0.0) / (measured or 1.0), other_predicted / predicted)


def biases(source: str, column: str) -> Iterator[tuple[int, float]]:
    """Yield each value of a column with the mean signed error of its rows, in order. [-]"""
    errors: dict[int, list[float]] = {}
    for run, price in priced():
        if run.run.source == source and run.measured.seconds:
            errors.setdefault(getattr(run.run, column), []).append(price.step_s / run.measured.seconds - 1)
    for name in sorted(errors):
        yield name, sum(errors[name]) / len(errors[name])
