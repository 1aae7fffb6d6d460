"""Device memory beside the tensors."""

from __future__ import annotations

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait
from planner.techniques.allocators import ALLOCATORS


@dataclass(frozen=True)
class AllocatorTraits:
    """Device memory beside the tensors."""

    name: str = trait(
        "growing",
        "Who finds a place for each tensor: PyTorch's allocator, whose segments may be ``growing`` "
        "(``expandable_segments:True``) or ``fixed``, or an ``arena`` that a compiler planned.",
        name=("allocator", "segments"),
        words=ALLOCATORS,
    )
    framework_bytes: float = trait(
        2.0 * 2**30,
        "Context, communicators and workspaces, not seen by the allocator.",
        unit="byte",
    )
    product_workspaces: float = trait(
        0.0,
        "Workspaces of matrix products that the allocator sees, of 32 MiB each on Hopper and later.",
        unit="-",
    )
    reserve_share: float = trait(
        0.034,
        "Allocator reserve as a share of activations and workspace, where that is more than its kind needs.",
        unit="-",
        up_to=1.0,
    )
    held_share: float = trait(
        0.0,
        "The same with what an allocator of fixed segments keeps free, and gives back where the device is "
        "full; 0 where it keeps no more than its slack.",
        unit="-",
        up_to=1.0,
    )
    retry_seconds: float = trait(
        0.0,
        "Time of a step whose buffers find no room beside cached blocks, where an allocator gives these back "
        "and asks for them again, as one of fixed segments does.",
        unit="s",
    )
    full_message_seconds: float = trait(
        0.0,
        "Time that each message between stages blocks on a device that is nearly full, or on many nodes of a "
        "network that crowds.",
        unit="s",
    )
    memory_spread: float = trait(
        0.025,
        "Spread of the logarithm of measured over predicted memory.",
        unit="-",
        above_zero=True,
    )
