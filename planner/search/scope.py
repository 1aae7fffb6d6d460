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
    """A space of plans, and which of them a search may take.

    Parameters
    ----------
    job, runtime : Job, Runtime
        What is planned and who runs it.
    space : Space
        Structurally legal rows.
    choices : Choices
        Technique names to combine.
    limit : float
        Bytes of device memory that a plan may be predicted to use.
    capacity : float
        Bytes that it has.
    keep : int
        The effort: candidates to keep, and the cost of refining them in prices of a plan.
    shards : int, optional
        Ranks over which states are sharded; all that may where none is given.
    split : tuple of int, optional
        Layers of each virtual stage, where the user has set them.
    uneven : bool
        Whether stages may differ in layers and in recompute.
    shown : int
        Plans of least value to keep, where that is more than ``keep``.
    by_memory : bool
        Whether the value is memory and not seconds.
    within : float
        Seconds that a step may take, where memory is the value. [s]
    hostable : array (rows,), optional
        Rows of the space that may keep activations on the host, where the search is to try that.
    known : dict, optional
        Legal rows, shared with scans of the same space for other settings.
    """

    job: Job
    runtime: Runtime
    space: Space
    choices: Choices
    limit: float
    capacity: float
    keep: int = 64
    shards: int | None = None
    split: tuple[int, ...] | None = None
    uneven: bool = False
    shown: int = 0
    by_memory: bool = False
    within: float = np.inf
    hostable: NDArray[np.bool_] | None = None
    known: KnownLegal | None = None
