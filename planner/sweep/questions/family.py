"""A question: one axis is solved for, and each setting of all others has an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from planner.dataclasses import dataclass
from planner.sweep.front import grouped
from planner.sweep.ranges import Between
from planner.sweep.row import FAILED, REFUSED, Row

Reply = dict[str, Any]
"""The setting, the answer under the name of the axis (None where there is none), figures and a note."""


@dataclass(frozen=True)
class SweepQuestion:
    """Something that the rows of a sweep answer."""

    name: str
    """Its option without the dashes."""
    axis: str
    """What is solved for."""
    title: Callable[[float], str]
    """The question in words, from its limit."""
    answer: Callable[[Sequence[Row], float], Reply]
    """From the rows of one setting and the limit to the answer, figures and note."""
    needs: tuple[str, ...] = ()
    """Axes that the grid must give."""
    settings: tuple[str, ...] = ()
    """Axes that set apart, beside model and cluster, even where the grid has one value of them."""
    between: Between | None = None
    """From the ends of a range in the grid to the values that it stands for; None where the axis has its own,
    such as the counts that fill nodes."""
    halves: bool = False
    """Whether a value that fits lets all smaller ones fit, so that a range is searched by halving it."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def replies(self, rows: Sequence[Row], varying: Sequence[str], limit: float = 0.0) -> list[Reply]:
        """Return the answer for each setting of the other axes, in the order of the grid."""
        names = dict.fromkeys(("models", "hardware", *self.settings, *varying))
        names.pop(self.axis, None)
        groups = grouped(rows, lambda row: tuple(row.case.get(name) for name in names))
        return [
            dict(zip(names, setting, strict=True)) | self.answer(group, limit)
            for setting, group in groups.items()
        ]


def would_fit(rows: Sequence[Row]) -> str:
    """Return what would fit where none of ``rows`` does, in words."""
    for status, why in ((REFUSED, "values that do not go together"), (FAILED, "the searches failed")):
        if all(row.outcome.status == status for row in rows):
            return why
    nearest: list[Mapping[str, Any]] = [row.outcome.nearest for row in rows if row.outcome.nearest]
    gpus = min((found["gpus"] for found in nearest if found.get("gpus")), default=None)
    changes = dict.fromkeys(change for found in nearest for change in found.get("changes") or ())
    words = [f"{gpus:,} accelerators"] if gpus else []
    return f"nothing fits; would: {'; or '.join([*words, *changes])}" if words or changes else "nothing fits"
