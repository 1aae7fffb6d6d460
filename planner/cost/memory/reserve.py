"""What an allocator keeps beside live tensors, as shares of what passes take."""

from __future__ import annotations

from typing import Final

from planner.cost.case import Case

FIXED_NEEDED: Final = 0.07
FIXED_SHOWN: Final = 0.3
"""What segments of fixed size need besides where the device is full, 3 to 11% over 14 jobs that were played
on such an allocator, and hold where it is not, 13 to 37%. [-]"""


def needed_share(case: Case) -> float:
    """Return the reserve that a device must have. [-]"""
    return max(
        case.traits.allocator.reserve_share, FIXED_NEEDED * (case.traits.allocator.segments == "fixed")
    )


def shown_share(case: Case) -> float:
    """Return the same as far as the device has room. [-]"""
    return max(case.traits.allocator.held_share, FIXED_SHOWN * (case.traits.allocator.segments == "fixed"))
