"""The types of the hub that are taken where what is written for them is read back as the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes._hub_dense import DENSE
from planner.runtimes._hub_hybrids import HYBRIDS
from planner.runtimes._hub_older import OLDER
from planner.runtimes._hub_sparse import SPARSE
from planner.runtimes._hub_types import HubType
from planner.runtimes._hub_windows import WINDOWED

TYPES: Final[Mapping[str, HubType]] = HYBRIDS | DENSE | OLDER | WINDOWED | SPARSE
"""Type to how it is written."""
