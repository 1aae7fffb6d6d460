"""What every input record shares: frozen, strict about keys, quantities with unit and source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    ValidationInfo,
)

from planner import units
from planner.dataclasses import remembered_by

Standing = Literal["datasheet", "measured", "fitted", "literature", "derived", "estimated", "user"]
"""Where a number stands, from the most to the least binding for the machine at hand."""


class Record(BaseModel):
    """A frozen input record; an unknown key is an error. What validates it is built at its first use."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, with other fields where asked, which works out again what the record remembers."""
        copied = super().model_copy(update=update, deep=deep)
        for name in remembered_by(type(self)) - update.keys() if update else ():
            copied.__dict__.pop(name, None)
        return copied


def _whole(raw: Any) -> Any:
    if isinstance(raw, bool | str):
        raise ValueError("a whole number, without quotes")
    return raw


Flag = StrictBool
Positive = Annotated[int, Field(gt=0, le=10**15), BeforeValidator(_whole)]
Count = Annotated[int, Field(ge=0, le=10**15), BeforeValidator(_whole)]


class Sourced(float):
    """A float in base units that remembers its text, its source and where it stands."""

    __slots__ = ("source", "standing", "text")

    text: str
    source: str
    standing: Standing

    def __new__(cls, value: float, text: str = "", source: str = "", standing: Standing = "user") -> Sourced:
        """Make the number; ``text`` is what the file said."""
        number = super().__new__(cls, value)
        number.text, number.source, number.standing = text, source, standing
        return number

    def __reduce__(self) -> tuple[type[Sourced], tuple[float, str, str, str]]:
        return (Sourced, (float(self), self.text, self.source, self.standing))


_FIELDS = {"value", "source", "standing", "note"}


def _read(raw: Any, dimension: str, info: ValidationInfo) -> Sourced:
    if isinstance(raw, Sourced):
        return raw
    fields = raw if isinstance(raw, dict) else {"value": raw}
    unknown = set(fields) - _FIELDS
    if unknown or "value" not in fields:
        raise ValueError(f"a quantity has the keys {', '.join(sorted(_FIELDS))}, of which value is needed")
    sources: dict[str, str] = (info.context or {}).get("sources", {})
    source = str(fields.get("source", ""))
    standing = fields.get("standing", "datasheet" if source else "user")
    if standing not in get_args(Standing):
        raise ValueError(f"a standing of {', '.join(get_args(Standing))}, not {standing}")
    value = units.parse(fields["value"], dimension)
    if not 0 <= value < math.inf:
        raise ValueError("a finite number, not negative")
    return Sourced(value, str(fields["value"]), sources.get(source, source), standing)


def _quantity(dimension: str) -> PlainValidator:
    def validate(raw: Any, info: ValidationInfo) -> Sourced:
        return _read(raw, dimension, info)

    return PlainValidator(validate)


def _serialise(value: Sourced) -> dict[str, str]:
    return {"value": value.text, "source": value.source, "standing": value.standing}


_WITH_SOURCE = PlainSerializer(_serialise)

Bytes = Annotated[Sourced, _quantity("byte"), _WITH_SOURCE]
ByteRate = Annotated[Sourced, _quantity("byte/s"), _WITH_SOURCE]
FlopRate = Annotated[Sourced, _quantity("FLOP/s"), _WITH_SOURCE]
Seconds = Annotated[Sourced, _quantity("s"), _WITH_SOURCE]
Watts = Annotated[Sourced, _quantity("W"), _WITH_SOURCE]
Price = Annotated[Sourced, _quantity("USD/h"), _WITH_SOURCE]
Share = Annotated[Sourced, _quantity("-"), _WITH_SOURCE]
