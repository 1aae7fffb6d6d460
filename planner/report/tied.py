"""Plans that the model cannot tell from the first: those that tie with it, and variants of its mesh."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from planner.cost.estimate import Estimate
from planner.report.layout import layout
from planner.report.page import all_of, significant
from planner.report.settings_line import own_settings
from planner.search.request import objective_value
from planner.search.result import SearchResult
from planner.search.ties import TIE, caution
from planner.units import percent

REASONS: Final = ("less risk of running out of memory", "kinds that were measured", "fewer techniques")
"""What speaks for a plan that comes first though some that tie are faster, in the order of `caution`."""


def ties(result: SearchResult, objective: str, shown: Iterable[int]) -> list[str]:
    """Say which plans are no worse than the best by more than the model can tell, and name its variants.

    ``shown``: the ranks of the rows that a table has.
    """
    played = (*result.played, *[None] * len(result.plans))
    values = [
        objective_value(objective, answer, seconds)
        for answer, seconds in zip(result.plans, played, strict=False)
    ]
    least = min(values)
    tied = takewhile(lambda value: value <= least * (1 + TIE) < float("inf"), values)
    last = len(list(tied))
    tied_rows = [row for row, rank in enumerate(shown, 1) if rank <= last]
    lines = [f"Plans {_span(tied_rows)} tie (within {percent(TIE, 0)})."] if len(tied_rows) > 1 else []
    others = result.variants[0] if result.variants else ()
    if others:
        words = ", ".join(dict.fromkeys(_difference(result.plans[0], other) for other in others))
        lines.append(f"Variants of plan 1: {words}{_why_first(result.plans[0], others)}.")
    return [" ".join(lines)] if lines else []


def _span(ranks: Sequence[int]) -> str:
    """Return ranks in words.

    Examples
    --------
    >>> _span([1, 2]), _span([1, 2, 3]), _span([1, 2, 4])
    ('1 and 2', '1 to 3', '1, 2 and 4')
    """
    if len(ranks) > 2 and ranks[-1] - ranks[0] == len(ranks) - 1:
        return f"{ranks[0]} to {ranks[-1]}"
    return all_of(map(str, ranks))


def _why_first(lead: Estimate, others: Iterable[Estimate]) -> str:
    """Return why the first plan is that, where variants that tie with it are faster."""
    own, faster = caution(lead), [caution(other) for other in others if other.step < lead.step]
    reasons = [
        word
        for place, word in enumerate(REASONS)
        if any(its[:place] == own[:place] and its[place] > own[place] for its in faster)
    ]
    return f"; plan 1 comes first for {all_of(reasons)}" if reasons else ""


def _difference(answer: Estimate, other: Estimate) -> str:
    """Return in which words of its layout a variant differs, and its seconds."""
    own, its = _words(answer), _words(other)
    words = [word for word in its if word not in own] or [f"no {word}" for word in own if word not in its]
    return f"{' '.join(words) or 'another split'} {significant(other.step, 3)} s"


def _words(answer: Estimate) -> list[str]:
    """Return the words of a layout and its settings."""
    told = own_settings(answer).items()
    return [*layout(answer.plan).split(), *(f"{name}={value}" for name, value in told)]
