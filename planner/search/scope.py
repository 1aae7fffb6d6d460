"""What a search may do for one job: its techniques, its memory, and what counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.runtimes.family import Job, Runtime
from planner.search.legality import Choices, KnownLegal
from planner.search.space import Space

KEPT_WHOLE = "none"
"""Recompute of a plan that keeps everything."""


@dataclass
class Scope:
    """A space of plans, and which of them a search may take."""

    job: Job
    runtime: Runtime
    """What is planned and who runs it."""
    space: Space
    """Structurally legal rows."""
    choices: Choices
    """Technique names to combine."""
    limit: float
    """Bytes of device memory that a plan may be predicted to use."""
    capacity: float
    """Bytes that it has."""
    keep: int = 64
    """The effort: candidates to keep, and the cost of refining them in prices of a plan."""
    shards: int | None = None
    """Ranks over which states are sharded; all that may where none is given."""
    split: tuple[int, ...] | None = None
    """Layers of each virtual stage, where the user has set them."""
    uneven: bool = False
    """Whether stages may differ in layers and in recompute."""
    shown: int = 0
    """Plans of least value to keep, where that is more than ``keep``."""
    by_memory: bool = False
    """Whether the value is memory and not seconds."""
    within: float = np.inf
    """Seconds that a step may take, where memory is the value. [s]"""
    hostable: NDArray[np.bool_] | None = None
    """Shape (rows,): rows of the space that may keep activations on the host, where the search is to try
    that."""
    known: KnownLegal | None = None
    """Legal rows, shared with scans of the same space for other settings."""
    beside: Runtime | None = None
    """Settings whose legal plans are left to another scan, where there is one."""
    beaten: float = np.inf
    """Seconds from which earlier scans of the job have as many better plans as are kept. [s]"""
    usual: Runtime | None = None
    """The runtime as it is asked for, where the scan has other settings."""
