"""What limits a plan: the dearest thing beside compute, and memory where little is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.cost.estimate import Estimate
from planner.report.page import all_of

WORTH_TELLING: Final = 0.05
"""Share of a step from which a term that is not compute is said to limit it."""
TIGHT: Final = 0.9
"""Share of the memory in use from which it is said to limit."""

TERMS: Final = {
    "tp_comm": "tp link",
    "cp_comm": "cp link",
    "ep_comm": "ep link",
    "pp_comm": "pp link",
    "dp_comm": "dp link",
    "bubble": "bubble",
    "optimizer": "optimizer",
    "offload": "offload",
    "other": "host",
}


def limits(answer: Estimate) -> tuple[str, ...]:
    """Return what limits a plan, the dearest first: ``compute`` where nothing else takes a share of note."""
    terms = {name: getattr(answer.time, name) for name in TERMS}
    return limits_of(terms, answer.step, answer.peak / answer.capacity, waits_for_lengths(answer))


def limits_said(answer: Estimate) -> str:
    """Return the same as a clause, such as ``compute and the tp link (27% of a step)``.

    Compute stands there where it takes most of a step, or nothing else a share of note.
    """
    first, *memory = limits(answer)
    term, _, share = first.rpartition(" ")
    named = [f"the {term} ({share} of a step)"] if term else []
    most = answer.time.compute > 0.5 * answer.step or not term
    return all_of([*["compute"] * most, *named, *memory])


def waits_for_lengths(answer: Estimate) -> bool:
    """Whether a bubble is what ranks wait for one another: lengths are unequal, and there are no stages."""
    return answer.job.workload.seq_lens is not None and bool(answer.plan.pp == 1)


def limits_of(terms: Mapping[str, Any], step: float, full: float, lengths: bool = False) -> tuple[str, ...]:
    """Return the same from the terms of a step [s], the step [s] and the share of memory in use.

    ``lengths`` says that the bubble is `waits_for_lengths`.
    """
    known = TERMS | {"bubble": "unequal lengths"} if lengths else TERMS
    shares = {words: (terms.get(name) or 0.0) / step for name, words in known.items()}
    worst = max(shares, key=shares.__getitem__)
    first = f"{worst} {shares[worst]:.0%}" if shares[worst] >= WORTH_TELLING else "compute"
    return (first, "memory") if full >= TIGHT else (first,)
