"""Context parallelism."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait


@dataclass(frozen=True)
class ContextTraits:
    """Context parallelism."""

    fp32_gradients: bool = trait(
        False,
        "Whether context parallelism passes gradients of keys and values on in fp32, and once round the "
        "whole ring (``torch.distributed.tensor.experimental``).",
        name="fp32_context_gradients",
    )
    exposed: float = trait(
        0.5,
        "Share of context-parallel messages that no compute hides.",
        unit="-",
        name="cp_exposed",
        up_to=1.0,
    )
    slowdown: float = trait(
        1.2,
        "Time of attention under context parallelism over its share of the whole: smaller calls and "
        "stitching.",
        unit="-",
        name="cp_slowdown",
        above_zero=True,
    )
    by_length: bool = trait(
        False,
        "Whether each document of unequal lengths has as many ranks as its length needs.",
        name="context_by_length",
    )
    merges_each_step: bool = trait(
        False,
        "Whether the result of each step on another rank's keys is merged before the next step starts, so "
        "that stitching grows with their number, and ``cp_slowdown`` is that of two ranks. PyTorch's is "
        "(``torch.distributed.tensor.experimental``, ``_SDPAMerger``); Transformer Engine merges beside the "
        "next step, on a stream of its own (``context_parallel.py``, ``cp_stream``).",
    )
