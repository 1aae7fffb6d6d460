"""The types of the hub that are taken where what is written for them is read back as the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from planner.runtimes.hub.delta import DELTA
from planner.runtimes.hub.dense import DENSE
from planner.runtimes.hub.hybrids import HYBRIDS
from planner.runtimes.hub.masked import MASKED
from planner.runtimes.hub.newer import NEWER
from planner.runtimes.hub.older import OLDER
from planner.runtimes.hub.seq2seq import SEQ2SEQ
from planner.runtimes.hub.sparse import SPARSE
from planner.runtimes.hub.types import HubType
from planner.runtimes.hub.windows import WINDOWED

TYPES: Final[Mapping[str, HubType]] = {
    **HYBRIDS, **DELTA, **DENSE, **OLDER, **WINDOWED, **SPARSE, **MASKED, **NEWER, **SEQ2SEQ,
}  # fmt: skip
"""Type to how it is written."""
