"""What rests on a rank, and what is gathered and reduced in one piece."""

from __future__ import annotations

from dataclasses import dataclass

from planner.runtimes._traits._trait import trait


@dataclass(frozen=True)
class EngineTraits:
    """What rests on a rank, and what is gathered and reduced in one piece."""

    persistent_gradients: bool = trait(
        True,
        "Whether the gradient buffer lives through the whole step.",
    )
    sharded_at_rest: bool = trait(
        False,
        "Whether ZeRO-2 too shards weights between steps and holds them gathered from forward to backward, "
        "and a pipeline gathers or reduces what it can once in a step (PyTorch FSDP).",
    )
    padded_rows: bool = trait(
        False,
        "Whether sharded parameters are cut by rows, each by itself, and the last parts padded to the "
        "first's (PyTorch FSDP2).",
    )
    head_stays_gathered: bool = trait(
        False,
        "Whether the last norm and the head, and a table tied to it, stay gathered from forward to backward "
        "where other weights do not and there is no pipeline.",
    )
    gradient_blocks_idle: bool = trait(
        False,
        "Whether memory of gradients freed after a step stays with the allocator and serves nothing else.",
    )
    stacked_experts: bool = trait(
        False,
        "Whether a layer's experts are one parameter that shards cut by whole experts, the last ones padded.",
    )
    owned_parameters: bool = trait(
        False,
        "Whether optimizer states are dealt out by whole parameters, each of them reduced to its owner and "
        "sent from it in a message of its own, where a shard is else a part of one buffer.",
    )
    parameters_apart: bool = trait(
        False,
        "Whether a call that reduces or gathers sharded optimizer states has a ring pass for each parameter.",
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
    recompute_gathers: bool = trait(
        False,
        "Whether recompute calls the layer's sharded unit again, and so gathers its weights a third time; "
        "where the unit holds the recompute, backward's gather serves both.",
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
    flat_buckets: float = trait(
        0.0,
        "Flat buffers of ``bucket_elements`` that wait for backward where only optimizer states, or "
        "gradients too, are sharded.",
        unit="-",
    )
