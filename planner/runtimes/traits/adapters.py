"""Adapters and the linear layers that they sit on."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class AdapterTraits:
    """Adapters and the linear layers that they sit on."""

    separate_projections: bool = trait(
        False,
        "Whether queries, keys and values, and the halves of a gated feed-forward, are linear layers of "
        "their own, with an adapter each (transformers).",
    )
    operator_fuser: bool = trait(
        False,
        "Whether Transformer Engine's operator fuser makes one kernel of an activation and the cast of its "
        "result to low bits, and the scale and sums of adapters part of their products.",
    )
    dropout: bool = trait(
        False,
        "Whether dropout runs on the input of adapters.",
        name="adapter_dropout",
    )
