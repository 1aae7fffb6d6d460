"""Which launch files are asked for, as the user wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from planner.dataclasses import dataclass

if TYPE_CHECKING:
    from planner.runtimes.saving import Saving


@dataclass(frozen=True)
class Launch:
    """Where launch files go, and for whom; names as the user wrote them."""

    out: Path
    target: str | None
    launcher: str
    version: str | None
    force: bool
    smoke: bool = False
    saving: Saving | None = None
