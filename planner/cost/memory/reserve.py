"""What an allocator keeps beside live tensors, as shares of what passes take."""

from __future__ import annotations

from planner.cost.case import Case
from planner.runtimes.traits.allocator import FIXED_NEEDED, FIXED_SHOWN


def needed_share(case: Case) -> float:
    """Return the reserve that a device must have. [-]"""
    return max(
        case.traits.allocator.reserve_share, FIXED_NEEDED * (case.traits.allocator.segments == "fixed")
    )


def shown_share(case: Case) -> float:
    """Return the same as far as the device has room. [-]"""
    return max(case.traits.allocator.held_share, FIXED_SHOWN * (case.traits.allocator.segments == "fixed"))
