"""Scores of predictors by one rule: errors of time, ranks, regret of the pick, memory, fit or not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Final

from planner.calibrate.benchmark.predictions import PredictedRow
from planner.calibrate.runs.defaults import Skip
from planner.calibrate.scores import (
    Json,
    Scored,
    group_scores,
    grouped,
    memory_scores,
    oom_scores,
    source_scores,
    time_scores,
)
from planner.dataclasses import replace

SCHEMA: Final = "planner/benchmark/1"

Predictors = Mapping[str, Mapping[str, PredictedRow]]
"""Predictions by the name of their predictor, and the key of their row."""


def document(truths: Sequence[Scored], untold: Sequence[Skip], predictors: Predictors) -> Json:
    """Return ``planner/benchmark/1``: each predictor's scores, and on the rows that all of them time.

    ``truths``: rows as measured, without predictions; ``untold``: rows without a time, or with nothing to be
    judged by, and why; ``predictors``: what each of them says.
    """
    timed = [row for row in truths if row.measured_s]
    answer: Json = {
        "schema": SCHEMA,
        "rows": len({row.id for row in truths} | {skip.id for skip in untold}),
        "judged": {
            "step_time": len(timed),
            "memory": sum(row.measured_gib is not None for row in truths),
            "fit": sum(row.measured_oom is not None for row in truths),
            "groups": len(choices(truths)),
        },
        "untold": [{"id": skip.id, "reason": skip.reason} for skip in untold],
        "chance": chance(truths),
        "predictors": [{"name": name} | scores(truths, said) for name, said in predictors.items()],
        "common": None,
    }
    if len(predictors) > 1:
        all_of_them = [row for row in truths if all(_timed(said.get(row.id)) for said in predictors.values())]
        answer["common"] = {
            "rows": len(all_of_them),
            "chance": chance(all_of_them),
            "predictors": [{"name": name} | scores(all_of_them, said) for name, said in predictors.items()],
        }
    return answer


def _timed(said: PredictedRow | None) -> bool:
    return said is not None and said.step_s is not None


def judged(truth: Scored, said: PredictedRow | None) -> Scored:
    """Return a row with what a predictor says of it.

    A predictor that does not say whether a run fits is taken to offer it.
    """
    if said is None:
        return truth
    ends = None if said.fits is None else not said.fits
    return replace(truth, predicted_s=said.step_s, predicted_gib=said.memory_gib, predicted_oom=ends)


def scores(truths: Sequence[Scored], said: Mapping[str, PredictedRow]) -> Json:
    """Return the scores of one predictor."""
    rows = [judged(truth, said.get(truth.id)) for truth in truths]
    known = {truth.id for truth in truths}
    ordinary = [row for row in rows if not row.mark]
    found: Json = {
        "missing": {
            "step_time": sum(bool(row.measured_s) and not row.predicted_s for row in rows),
            "memory": sum(bool(row.measured_gib) and not row.predicted_gib for row in rows),
            "fit": sum(row.measured_oom is not None and row.predicted_oom is None for row in rows),
        },
        "unknown_ids": sum(key not in known for key in said),
        "step_time": time_scores(rows),
        "rank": _ranks(rows),
        "pick": _picks(rows),
        "memory": memory_scores(rows),
        "oom": oom_scores(rows),
        "sources": _sources(rows),
    }
    if len(ordinary) < len(rows):
        found["unmarked"] = time_scores(ordinary) | {"oom": oom_scores(ordinary)}
    return found


def _sources(rows: Sequence[Scored]) -> list[Json]:
    """Return error and rank of each source; rows whose step has no known tokens have no part in its rank."""
    ranks = {
        score["source"]: score["spearman"] for score in source_scores([row for row in rows if row.tokens])
    }
    return [score | {"spearman": ranks.get(score["source"])} for score in source_scores(rows)]


def _ranks(rows: Sequence[Scored]) -> Json:
    """Return mean rank correlations: of tokens per second in sources, of seconds in groups."""
    every = {"sources": _sources(rows), "groups": group_scores(rows)}
    ranks = {name: _floats(score["spearman"] for score in found) for name, found in every.items()}
    return {name: fmean(known) if known else None for name, known in ranks.items()}


def _floats(values: Iterable[object]) -> list[float]:
    return [value for value in values if isinstance(value, float)]


def choices(rows: Sequence[Scored]) -> list[list[Scored]]:
    """Return the groups in which there is something to choose: two runs or more, one of them timed."""
    groups = grouped([row for row in rows if row.measured_s or row.measured_oom], lambda row: row.key)
    return [
        members
        for members in groups.values()
        if len(members) > 1 and any(row.measured_s and not row.measured_oom for row in members)
    ]


def _picks(rows: Sequence[Scored]) -> Json:
    """Return the regret of the runs that a predictor would have chosen, one of each group.

    Of runs that it calls equally fast each is chosen as often, whatever their order: ``ran_out`` counts in
    parts of a group.
    """
    groups, regrets, ran_out, none = choices(rows), list[float](), 0.0, 0
    for members in groups:
        able = [row for row in members if row.predicted_s and not row.predicted_oom]
        least = min((row.predicted_s or 0 for row in able), default=0.0)
        picks = [row for row in able if row.predicted_s == least]
        ended = [row.measured_s for row in picks if row.measured_s and not row.measured_oom]
        ran_out += sum(row.measured_oom is True for row in picks) / (len(picks) or 1)
        regrets += [fmean(ended) / _fastest(members) - 1] if ended else []
        none += not picks
    return {"groups": len(groups), **_middle(regrets), "ran_out": ran_out, "no_pick": none}


def _fastest(members: Sequence[Scored]) -> float:
    return min(row.measured_s for row in members if row.measured_s and not row.measured_oom)


def chance(rows: Sequence[Scored]) -> Json:
    """Return what a run drawn at random from each group costs: the regret that says nothing.

    ``ran_out`` is the expected count of groups whose run runs out of memory.
    """
    regrets, ran_out = [], 0.0
    for members in choices(rows):
        timed = [row.measured_s for row in members if row.measured_s and not row.measured_oom]
        regrets.append(fmean(timed) / _fastest(members) - 1)
        ran_out += sum(row.measured_oom is True for row in members) / len(members)
    return {"groups": len(regrets), **_middle(regrets), "ran_out": ran_out}


def _middle(regrets: Sequence[float]) -> Json:
    known = bool(regrets)
    return {"mean": fmean(regrets) if known else None, "median": median(regrets) if known else None}
