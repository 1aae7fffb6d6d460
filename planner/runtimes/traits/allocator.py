"""Device memory beside the tensors."""

from __future__ import annotations

from typing import Final, Literal

from planner.dataclasses import dataclass
from planner.runtimes.traits.trait import trait

FIXED_NEEDED: Final = 0.07
FIXED_SHOWN: Final = 0.3
"""What segments of fixed size need beside what passes take where the device is full, 3 to 11% over 14 jobs
that were played on such an allocator, and hold where it is not, 13 to 37%. [-]"""


@dataclass(frozen=True)
class AllocatorTraits:
    """Device memory beside the tensors."""

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
        "Allocator reserve as a share of activations and workspace.",
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
    segments: Literal["growing", "fixed"] = trait(
        "growing",
        "Whether segments of PyTorch's allocator may grow (``expandable_segments:True``): where they do not, "
        "what is left of one in use serves no larger tensor.",
    )
    retry_seconds: float = trait(
        0.0,
        "Time of a step whose buffers find no room beside cached blocks: the allocator gives these back and "
        "asks for them again; 0 where segments can grow.",
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
