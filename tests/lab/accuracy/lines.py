"""Scores of priced runs, sorted into lines by what the runs have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from planner.calibrate.constants import Key
from planner.calibrate.runs.defaults import Skip
from planner.calibrate.scores import (
    GROUP_KEYS,
    Scored,
    group_scores,
    memory_scores,
    naive_scores,
    oom_scores,
    source_scores,
    time_scores,
)
from planner.calibrate.validate import Outcome

FAMILIES: Final = (
    "deepseek", "qwen", "mixtral", "mistral", "nemotron", "gpt-oss", "kimi", "gemma", "llama", "mpt",
    "internlm", "bert", "bloom", "t5", "gpt",
)  # fmt: skip
"""Words by which a model's family is known, the most particular first."""

Kind = Callable[[Outcome], str]

Left = Literal["source", "model", "accelerator", "family"]
"""What is left out in turn of the fit; a family is that of models."""

LINES_OF: Final[Mapping[Left, str]] = {
    "source": "source",
    "model": "source",
    "accelerator": "accelerator",
    "family": "model family",
}
"""By which key of `KINDS` the errors without it are told."""


def family(model: str) -> str:
    """Return the family of a model by its name.

    Examples
    --------
    >>> family("LLAMA3_70B"), family("gpt-oss-120b"), family("6.2B")
    ('llama', 'gpt-oss', 'other')
    """
    text = re.sub(r"[_ ]", "-", model.lower())
    return next((word for word in FAMILIES if word in text), "other")


def _column(name: str) -> Kind:
    place = GROUP_KEYS.index(name)
    return lambda outcome: str(outcome.scored.key[place])


KINDS: Final[Mapping[str, Kind]] = {
    "source": lambda outcome: outcome.scored.source,
    "accelerator": _column("gpu"),
    "runtime": lambda outcome: outcome.runtime,
    "era": lambda outcome: outcome.era,
    "model family": lambda outcome: family(_column("model")(outcome)),
    "precision": _column("precision"),
}
"""By what runs are told apart."""


@dataclass(frozen=True)
class Line:
    """The scores of some runs that have something in common.

    Parameters
    ----------
    name : str
        What they have in common.
    rows, timed, ranked_groups : int
        Rows priced, rows with a time, groups of at least three timed rows. [-]
    error, bias, p90, naive : float or None
        Mean absolute error of step time, mean signed one, 90th percentile, and the rule of thumb's mean. [-]
    rank, source_rank : float or None
        Mean rank correlation inside groups, and of tokens per second over all rows. [-]
    regret : float or None
        Mean of the picks. [-]
    picks_oom : int
        Picks that ran out of memory. [-]
    memory_error : float or None
        Mean absolute error of peak memory, counters known or not. [-]
    memory_rows : int
        Rows of it. [-]
    outcomes : mapping
        Out-of-memory calls, as in `oom_scores`.
    """

    name: str
    rows: int
    timed: int
    ranked_groups: int
    error: float | None
    bias: float | None
    p90: float | None
    naive: float | None
    rank: float | None
    source_rank: float | None
    regret: float | None
    picks_oom: int
    memory_error: float | None
    memory_rows: int
    outcomes: Mapping[str, int]

    @property
    def right(self) -> float | None:
        """Share of fit-or-not calls that were right; None where no outcome is known. [-]"""
        total = sum(self.outcomes.values())
        good = self.outcomes["true_positive"] + self.outcomes["true_negative"]
        return good / total if total else None


def line_of(name: str, outcomes: Sequence[Outcome]) -> Line:
    """Return the scores of runs that have a name in common."""
    rows = [outcome.scored for outcome in outcomes]
    times: Any = time_scores(rows)
    groups: Any = group_scores(rows)
    memory: Any = memory_scores(rows)
    sources: Any = source_scores(rows)
    outcomes_told: Any = oom_scores(rows)
    ranks = [group["spearman"] for group in groups if group["spearman"] is not None]
    regrets = [
        group["top1_regret"] for group in groups if group["n"] > 1 and group["top1_regret"] is not None
    ]
    unknown = memory["unknown_kind"]
    count = memory["n"] + unknown["n"]
    total = sum((scores["mape"] or 0.0) * scores["n"] for scores in (memory, unknown))
    return Line(
        name=name,
        rows=len(rows),
        timed=times["n"],
        ranked_groups=len(ranks),
        error=times["mape"],
        bias=times["bias"],
        p90=times["p90_ape"],
        naive=naive_scores(rows)["mape"],  # type: ignore[arg-type]
        rank=_mean(ranks),
        source_rank=sources[0]["spearman"] if len(sources) == 1 else None,
        regret=_mean(regrets),
        picks_oom=sum(group["pick_oom"] is True for group in groups),
        memory_error=total / count if count else None,
        memory_rows=count,
        outcomes=outcomes_told,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


@dataclass(frozen=True)
class Accuracy:
    """All tables of a folder, priced.

    Parameters
    ----------
    rows : int
        Rows read. [-]
    outcomes : tuple of Outcome
        Those that could be priced.
    skipped : tuple of Skip
        Those that could not.
    folds : mapping
        What is left out to the same rows, each priced without its fold; empty where
        not asked for.
    group_errors : mapping
        Constant to the error out of group of the runs that it is fitted to; empty where not asked for. [-]
    """

    rows: int
    outcomes: tuple[Outcome, ...]
    skipped: tuple[Skip, ...]
    folds: Mapping[Left, tuple[Outcome, ...]] = field(default_factory=dict)
    group_errors: Mapping[Key, float] = field(default_factory=dict)

    @property
    def ordinary(self) -> list[Outcome]:
        """Rows without a mark."""
        return [outcome for outcome in self.outcomes if not outcome.scored.mark]

    def lines(self, kind: str) -> list[Line]:
        """Return the scores of unmarked rows by a key of `KINDS`, the most rows first."""
        return lines_of(self.ordinary, KINDS[kind])

    def marked(self) -> list[Line]:
        """Return the scores of marked rows by source and mark."""
        rows = [outcome for outcome in self.outcomes if outcome.scored.mark]
        return lines_of(rows, lambda outcome: f"{outcome.scored.source}: {outcome.scored.mark}")

    def fold_errors(self, fold: Left) -> dict[str, float | None]:
        """Return the error of each line of `LINES_OF` out of fold. [-]"""
        rows = [outcome for outcome in self.folds.get(fold, ()) if not outcome.scored.mark]
        return {line.name: line.error for line in lines_of(rows, KINDS[LINES_OF[fold]])}

    def worst(self, count: int, each: int) -> list[Outcome]:
        """Return the rows with the largest errors, at most ``each`` of one source and model."""
        timed = [outcome for outcome in self.ordinary if outcome.scored.timed]
        timed.sort(key=lambda outcome: -abs(error_of(outcome.scored)))
        taken: list[Outcome] = []
        seen: dict[tuple[object, ...], int] = {}
        for outcome in timed:
            key = (outcome.scored.source, outcome.scored.key[GROUP_KEYS.index("model")])
            seen[key] = seen.get(key, 0) + 1
            if seen[key] <= each:
                taken.append(outcome)
        return taken[:count]


def lines_of(outcomes: Iterable[Outcome], kind: Kind) -> list[Line]:
    """Return the scores of rows by what they have in common, the most rows first."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(kind(outcome), []).append(outcome)
    lines = [line_of(name, members) for name, members in groups.items()]
    return sorted(lines, key=lambda line: (-line.rows, line.name))


def error_of(row: Scored) -> float:
    """Signed relative error of a timed row's step time. [-]"""
    return (row.predicted_s or 0.0) / (row.measured_s or 1.0) - 1
