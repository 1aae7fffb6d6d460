"""What became of a case: one line of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from planner.sweep.grid import Options

CASE: Final = "planner/sweep-case/1"

FITS: Final = "fits"
NOTHING_FITS: Final = "nothing-fits"
REFUSED: Final = "refused"
FAILED: Final = "failed"
STATUSES: Final = (FITS, NOTHING_FITS, REFUSED, FAILED)


@dataclass(frozen=True)
class Outcome:
    """What a search of one case gave.

    Parameters
    ----------
    status : str
        One of `STATUSES`: a plan fits, none does, the values of the case do not go together, or its search
        ended with an error.
    reason : str, optional
        Why it was refused or failed.
    best : mapping, optional
        The figures of the best plan, one level deep.
    nearest : mapping, optional
        What would fit, where nothing does.
    space : mapping, optional
        Counts of the search.
    elapsed_s : float
        Time of the search. [s]
    """

    status: str
    reason: str | None = None
    best: Mapping[str, Any] | None = None
    nearest: Mapping[str, Any] | None = None
    space: Mapping[str, Any] | None = None
    elapsed_s: float = 0.0


@dataclass(frozen=True)
class Row:
    """A case with its outcome.

    Parameters
    ----------
    key : str
        Digest of everything that the outcome depends on.
    case : Options
        What the grid says.
    outcome : Outcome
        What its search gave.
    """

    key: str
    case: Options
    outcome: Outcome

    @property
    def best(self) -> Mapping[str, Any]:
        """Figures of the best plan; empty where nothing fits."""
        return self.outcome.best or {}

    def document(self) -> dict[str, Any]:
        """Return the row as its line of JSON has it."""
        return {"schema": CASE, "key": self.key, "case": dict(self.case)} | asdict(self.outcome)


def row_of(document: Mapping[str, Any]) -> Row:
    """Return the row that a line of JSON holds.

    Raises
    ------
    ValueError
        If it is of another kind.
    """
    fields = {"status", "reason", "best", "nearest", "space", "elapsed_s"}
    if document.get("schema") != CASE or document.get("status") not in STATUSES:
        raise ValueError(f"a line whose schema is {CASE}")
    if not fields | {"key", "case"} <= set(document):
        raise ValueError("a line with every key of a case")
    return Row(document["key"], document["case"], Outcome(**{name: document[name] for name in fields}))


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return how many rows have each status."""
    return {status: sum(row.outcome.status == status for row in rows) for status in STATUSES}
