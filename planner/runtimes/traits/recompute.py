"""What recompute repeats."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.checkpointing import CHECKPOINTING


@dataclass(frozen=True)
class RecomputeTraits:
    """What recompute repeats."""

    kind: str = trait(
        "reentrant",
        "How a layer that is recomputed whole runs again: wholly (``reentrant``), until all that backward "
        "needs is there (``early-stop``), with a further gather of sharded weights (``around-units``), or so "
        "where the context method has checkpoints of its own (``around-layers``).",
        name="checkpointing",
        words=CHECKPOINTING,
    )
    selective: Literal["attention", "second-products"] = trait(
        "attention",
        "What selective recompute without named modules repeats: ``attention``, or ``second-products``.",
    )
    encoder_again: bool = trait(
        False,
        "Whether full recompute repeats the layers of an encoder of images too.",
    )
    host_checkpoints: bool = trait(
        False,
        "Whether the inputs of layers that are recomputed whole wait in host memory for their backward.",
    )
