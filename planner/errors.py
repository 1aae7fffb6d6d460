"""What can go wrong, as one tree.

PlannerError
├── InputError          the user's input is wrong                 exit 2
├── UnsupportedPlan     a runtime cannot run this plan            exit 1
├── Infeasible          nothing satisfies a valid request         exit 1
├── CheckFailed         a check ran and did not pass              exit 1
├── SolverError         a solver is missing, failed or timed out  exit 70, unless a fallback answered
└── ImpossiblePrice     a price breaks a law of physics           exit 70

The library raises, ``planner.cli.app`` alone catches, prints and exits.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from planner.dataclasses import dataclass

MOST_FOUND = 200
"""Letters of a wrong value that a message repeats."""


@dataclass(frozen=True)
class Problem:
    """One fault of an input: where it stands, what is there, what would be accepted."""

    where: str
    """File and field, or option: ``profile.yaml: memory`` or ``--tp``."""
    found: str
    """The value as the user wrote it."""
    expected: str
    """What is accepted, in words."""
    nearest: str = ""
    """The nearest valid choice, or empty where there is none."""

    def __str__(self) -> str:
        hint = f"; nearest: {self.nearest}" if self.nearest else ""
        found = self.found if len(self.found) <= MOST_FOUND else f"{self.found[: MOST_FOUND - 3]}..."
        return f"{self.where}: found {found}; expected {self.expected}{hint}"


class PlannerError(Exception):
    """Root of every error that the planner raises on purpose."""

    exit_code = 1


class InputError(PlannerError):
    """All faults of one input, told at once."""

    exit_code = 2

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class UnsupportedPlan(PlannerError):
    """A runtime or a target cannot run the plan; the message has every reason."""


class Infeasible(PlannerError):
    """The request is valid and nothing satisfies it; the message names what would."""


class CheckFailed(PlannerError):
    """A check ran to its end and its result is outside the tolerance."""


class SolverError(PlannerError):
    """A solver is missing, crashed, ran out of time or answered nonsense."""

    exit_code = 70


class ImpossiblePrice(PlannerError):
    """A price that cannot be, so that the model or what it was given is wrong; it is never shown."""

    exit_code = 70


def nearest(word: str, choices: Iterable[str]) -> str:
    """Return the choices closest in spelling to ``word``, best first, joined by commas."""
    known = {choice.lower(): choice for choice in choices}
    hits = difflib.get_close_matches(word.lower(), known, n=3, cutoff=0.5)
    return ", ".join(known[hit] for hit in hits)
