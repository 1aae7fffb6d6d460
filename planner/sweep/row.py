"""What became of a case: one line of the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from planner.dataclasses import asdict, dataclass, fields
from planner.sweep.grid import Options

CASE: Final = "planner/sweep-case/1"

FITS: Final = "fits"
NOTHING_FITS: Final = "nothing-fits"
REFUSED: Final = "refused"
FAILED: Final = "failed"
STATUSES: Final = (FITS, NOTHING_FITS, REFUSED, FAILED)


@dataclass(frozen=True)
class SweepOutcome:
    """What a search of one case gave."""

    status: str
    """One of `STATUSES`: a plan fits, none does, the values of the case do not go together, or its search
    ended with an error."""
    reason: str | None = None
    """Why it was refused or failed."""
    best: Mapping[str, Any] | None = None
    """The figures of the best plan, one level deep."""
    nearest: Mapping[str, Any] | None = None
    """What would fit, where nothing does."""
    space: Mapping[str, Any] | None = None
    """Counts of the search."""
    elapsed_s: float = 0.0
    """Time of the search. [s]"""


_OUTCOME: Final = {field.name for field in fields(SweepOutcome)}

Leaf = str | bool | int | Annotated[float, Field(allow_inf_nan=False)] | None


def _sound(best: dict[str, Leaf]) -> dict[str, Leaf]:
    """Refuse figures that no estimate has: negative ones."""
    for name, value in best.items():
        if isinstance(value, int | float) and value < 0:
            raise ValueError(f"{name} is {value}, below zero")
    return best


class _Best(BaseModel):
    """Figures of a plan that answers are made of; all others are let through."""

    model_config = ConfigDict(extra="allow", strict=True)

    gpus: int
    seq_len: int
    global_batch: int
    step_time_s: float
    peak_gib: float
    mfu: float
    days_to_train: float | None
    cost_usd_to_train: float | None


class _Line(BaseModel):
    """A line of a journal, which somebody may have changed since it was written."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: str = Field(alias="schema")
    key: str
    case: dict[str, str | None]
    status: str
    reason: str | None
    best: Annotated[dict[str, Leaf], AfterValidator(_sound)] | None
    nearest: dict[str, Any] | None
    space: dict[str, Any] | None
    elapsed_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Ask for the figures of a plan where one fits."""
        if self.status == FITS:
            _Best.model_validate(self.best)
        return self


@dataclass(frozen=True)
class Row:
    """A case with its outcome."""

    key: str
    """Digest of everything that the outcome depends on."""
    case: Options
    """What the grid says."""
    outcome: SweepOutcome
    """What its search gave."""

    @property
    def best(self) -> Mapping[str, Any]:
        """Figures of the best plan; empty where nothing fits."""
        return self.outcome.best or {}

    def document(self) -> dict[str, Any]:
        """Return the row as its line of JSON has it."""
        return {"schema": CASE, "key": self.key, "case": dict(self.case)} | asdict(self.outcome)


def row_of(document: Mapping[str, Any]) -> Row:
    """Return the row that a line of JSON holds.

    Raises `ValueError` if it is of another kind, lacks a key, or holds what no search answers.
    """
    if document.get("schema") != CASE or document.get("status") not in STATUSES:
        raise ValueError(f"a line whose schema is {CASE}")
    try:
        line = _Line.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg'].lower()}") from None
    return Row(line.key, line.case, SweepOutcome(**line.model_dump(include=_OUTCOME)))


def counts(rows: Sequence[Row]) -> dict[str, int]:
    """Return how many rows have each status."""
    return {status: sum(row.outcome.status == status for row in rows) for status in STATUSES}
