"""What rests on a rank, and what is gathered and reduced in one piece."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.engines import ENGINES


@dataclass(frozen=True)
class EngineTraits:
    """What rests on a rank, and what is gathered and reduced in one piece."""

    name: str = trait(
        "distributed-optimizer",
        "Who keeps weights, gradients and optimizer states, and moves them between ranks.",
        name="engine",
        words=ENGINES,
    )
    prefetch_elements: float = trait(
        0.0,
        "Weights gathered at once where parameters are sharded; 0 stands for a layer.",
        unit="element",
    )
    reuse_elements: float = trait(
        0.0,
        "Weights within which a weight that recompute has used is kept for its backward, where parameters "
        "are sharded; 0 stands for a whole layer.",
        unit="element",
    )
    live_elements: float = trait(
        0.0,
        "Weights gathered at most beside those of the product that runs, where parameters are sharded; 0 "
        "stands for two layers.",
        unit="element",
    )
    bucket_elements: float = trait(
        0.0,
        "Gradients that are reduced at once where they or their optimizer states are sharded, or the largest "
        "product's if these are more; 0 stands for a layer.",
        unit="element",
    )
    secondary_shards: bool = trait(
        False,
        "Whether the ranks of a node share a second copy of sharded weights, from which backward gathers.",
    )
    shard_levels: bool = trait(
        False,
        "Whether sharded weights rest in a module or node, gradients in a node, optimizer states everywhere.",
    )
    quantised_gathers: bool = trait(
        False,
        "Whether sharded weights are gathered in 8 bit.",
    )
    quantised_reductions: bool = trait(
        False,
        "Whether gradients of sharded weights are reduced in 4 bit, by all-to-alls inside nodes and between.",
    )
    flat_buckets: float = trait(
        0.0,
        "Flat buffers of ``bucket_elements`` that wait for backward where only optimizer states, or "
        "gradients too, are sharded.",
        unit="-",
    )
