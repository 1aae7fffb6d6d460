"""Scores of predictions against measurements: errors, ranks, regret of the pick, out-of-memory calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from planner.calibrate.runs.table import COUNTERS
from planner.numeric import Column

GROUP_KEYS: Final = (
    "source", "framework", "gpu", "model", "seq_len", "num_gpus", "global_batch", "precision",
)  # fmt: skip
"""Columns in which the rows of a group are equal."""
MIN_RANKED: Final = 3
"""Timed rows below which a rank correlation means nothing. [-]"""

WITHIN: Final = 0.1 + 1e-9
"""Share within which a prediction counts as close; a row at 10% to the last digit is. [-]"""

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Scored:
    """One priced row: what was measured, what was predicted, and in which group it stands."""

    id: str
    source: str
    """Of the row."""
    key: tuple[Hashable, ...]
    """Values of `GROUP_KEYS`."""
    measured_s: float | None
    predicted_s: float | None
    """Seconds per step. [s]"""
    naive_s: float | None
    """Seconds per step by the rule of thumb. [s]"""
    tokens: float
    """Tokens of a step for each accelerator. [-]"""
    measured_gib: float | None
    predicted_gib: float | None
    """Peak memory by the same counter. [GiB]"""
    memory_kind: str
    """That counter; empty where unknown."""
    measured_oom: bool | None
    predicted_oom: bool | None
    """Whether it ran out of memory."""
    mark: str = ""
    """Why to score it apart; empty for an ordinary row."""
    oom_probability: float = 0.0
    """The chance of it that was predicted. [-]"""

    @property
    def timed(self) -> bool:
        """Whether measured and predicted time can be compared."""
        return bool(self.measured_s and self.predicted_s)


def shares(pairs: Iterable[tuple[float, float]]) -> Column:
    """Return the signed errors predicted / measured - 1 of (predicted, measured) pairs. [-]"""
    table = np.array(list(pairs), dtype=float).reshape(-1, 2)
    return np.asarray(table[:, 0] / table[:, 1] - 1, dtype=np.float64)


def error_scores(errors: Column) -> Json:
    """Return count, mean, median and 90th percentile of absolute errors, bias, and the share within 10%.

    Parameters
    ----------
    errors : Column
        Signed relative errors. [-]

    Examples
    --------
    >>> error_scores(np.array([0.1, -0.1, 0.3]))["mape"]
    0.16666666666666666
    """
    names = ("mape", "median_ape", "p90_ape", "bias", "within_10pct")
    if not len(errors):
        return {"n": 0} | dict.fromkeys(names)
    if len(errors) == 1:
        error = float(errors[0])
        size = abs(error)
        return {"n": 1} | dict(zip(names, (size, size, size, error, float(size <= WITHIN)), strict=True))
    sizes = np.abs(errors)
    values = (
        np.mean(sizes), np.median(sizes), np.percentile(sizes, 90), np.mean(errors), np.mean(sizes <= WITHIN)
    )  # fmt: skip
    return {"n": len(errors)} | {name: float(value) for name, value in zip(names, values, strict=True)}


def average_ranks(values: Column) -> Column:
    """Return the rank of each value, from 1; equal values share the mean of their ranks. [-]

    Examples
    --------
    >>> average_ranks(np.array([10.0, 30.0, 10.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    mean = last - (counts - 1) / 2
    return np.asarray(mean[place], dtype=np.float64)


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return the rank correlation of two lists, or None below three values or where one list is constant.

    References
    ----------
    .. [1] C. Spearman, "The Proof and Measurement of Association between Two Things," Am. J. Psychol. 15(1),
       1904, pp. 72-101; ties by average ranks.

    Examples
    --------
    >>> spearman([1, 2, 3, 4], [1, 2, 4, 3])
    0.8
    """
    if len(left) < MIN_RANKED:
        return None
    ranks = [average_ranks(np.asarray(values, float)) for values in (left, right)]
    first, second = (rank - rank.mean() for rank in ranks)
    spread = float(np.sqrt((first @ first) * (second @ second)))
    return round(float(first @ second) / spread, 12) if spread else None


def time_scores(rows: Iterable[Scored]) -> Json:
    """Return the errors of step time over the timed rows."""
    return error_scores(shares((row.predicted_s or 0, row.measured_s or 1) for row in rows if row.timed))


def naive_scores(rows: Iterable[Scored]) -> Json:
    """Return the errors of the rule of thumb over the same rows."""
    return error_scores(shares((row.naive_s or 0, row.measured_s or 1) for row in rows if row.timed))


def memory_scores(rows: Iterable[Scored]) -> Json:
    """Return the errors of peak memory, like with like; rows of an unknown counter apart."""
    compared = [row for row in rows if row.measured_gib and row.predicted_gib]
    kinds = {kind: [row for row in compared if row.memory_kind == kind] for kind in COUNTERS}
    known = [row for rows in kinds.values() for row in rows]
    unknown = [row for row in compared if not row.memory_kind]
    scores = _memory(known)
    return scores | {
        "by_kind": {kind: _memory(rows) for kind, rows in kinds.items() if rows},
        "unknown_kind": _memory(unknown),
    }


def _memory(rows: Sequence[Scored]) -> Json:
    scores = error_scores(shares((row.predicted_gib or 0, row.measured_gib or 1) for row in rows))
    return {name: scores[name] for name in ("mape", "n", "bias")}


def oom_scores(rows: Iterable[Scored]) -> Json:
    """Return how often running out of memory was called; positive means out of memory."""
    calls = [(row.measured_oom, row.predicted_oom) for row in rows]
    return {
        "true_positive": calls.count((True, True)),
        "false_positive": calls.count((False, True)),
        "true_negative": calls.count((False, False)),
        "false_negative": calls.count((True, False)),
    }


def pick_scores(rows: Sequence[Scored]) -> Json:
    """Return what became of the row predicted fastest among those predicted to fit; of equals, of the safest.

    ``top1_regret`` is its measured time over the group's best, minus one; null where it was not timed.
    ``pick_oom`` is whether it really ran out of memory; null where nothing is predicted to fit, or the
    outcome is unknown.
    """
    able = [row for row in rows if row.predicted_s and not row.predicted_oom]
    timed = [row.measured_s for row in rows if row.measured_s and not row.measured_oom]
    if not able:
        return {"top1_regret": None, "pick_oom": None}
    pick = min(able, key=lambda row: (row.predicted_s or 0, row.oom_probability))
    if pick.measured_oom:
        return {"top1_regret": None, "pick_oom": True}
    regret = pick.measured_s / min(timed) - 1 if pick.measured_s and timed else None
    known = pick.measured_oom is not None or pick.measured_s is not None
    return {"top1_regret": regret, "pick_oom": False if known else None}


K = TypeVar("K", bound=Hashable)


def grouped(rows: Iterable[Scored], key: Callable[[Scored], K]) -> dict[K, list[Scored]]:
    """Return rows by key, in the order in which the keys first stand."""
    groups: dict[K, list[Scored]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def group_scores(rows: Iterable[Scored]) -> list[Json]:
    """Return error, rank and pick of each group of comparable rows."""
    scores: list[Json] = []
    for key, members in grouped(rows, lambda row: row.key).items():
        timed = [row for row in members if row.timed]
        errors = time_scores(timed)
        rank = spearman([row.measured_s or 0 for row in timed], [row.predicted_s or 0 for row in timed])
        named: Json = dict(zip(GROUP_KEYS, key, strict=True))
        scores.append(
            named | {"n": len(members), "mape": errors["mape"], "spearman": rank} | pick_scores(members)
        )
    return scores


def source_scores(rows: Iterable[Scored]) -> list[Json]:
    """Return error of each source, and the rank of tokens per second per accelerator over all of its rows."""
    scores: list[Json] = []
    for source, members in grouped(rows, lambda row: row.source).items():
        timed = [row for row in members if row.timed]
        speeds = [
            ([row.tokens / (seconds or 1) for row, seconds in pairs])
            for pairs in (
                [(row, row.measured_s) for row in timed],
                [(row, row.predicted_s) for row in timed],
            )
        ]
        errors = time_scores(timed)
        scores.append(
            {"source": source, "n": len(timed), "mape": errors["mape"], "spearman": spearman(*speeds)}
        )
    return scores
