"""What recompute repeats."""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class RecomputeTraits:
    """What recompute repeats."""

    early_stop: bool = trait(
        False,
        "Whether recompute stops before the last product of a layer, where backward does not need its "
        "result.",
    )
    selective: Literal["attention", "second-products"] = trait(
        "attention",
        "What selective recompute without named modules repeats: ``attention``, or ``second-products``.",
    )
    plain_checkpoints: bool = trait(
        False,
        "Whether full recompute repeats whole layers even where the context method has checkpoints of its "
        "own, behind attention.",
    )
    encoder_again: bool = trait(
        False,
        "Whether full recompute repeats the layers of an encoder of images too.",
    )
    host_checkpoints: bool = trait(
        False,
        "Whether the inputs of layers that are recomputed whole wait in host memory for their backward.",
    )
