"""What a model's authors print of its size."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.inputs.record import Flag, Record

Printed = Annotated[str, Field(pattern=r"^\d[\d,]*(\.\d+)?[KMBT]?$")]
Part = Literal["embedding", "head"]


class Published(Record):
    """What the model's authors say of its size, digit for digit, and which parts they leave out."""

    params: Printed | None = None
    params_without: tuple[Part, ...] = ()
    active_params: Printed | None = None
    active_without: tuple[Part, ...] = ()
    with_prediction: Flag = False
    source: str = ""
