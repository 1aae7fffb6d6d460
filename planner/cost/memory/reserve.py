"""What an allocator keeps beside live tensors, as shares of what passes take."""

from __future__ import annotations

from planner.cost.case import Case


def needed_share(case: Case) -> float:
    """Return the reserve that a device must have. [-]"""
    return case.allocator.needed_share(case.traits.allocator.reserve_share)


def shown_share(case: Case) -> float:
    """Return the same as far as the device has room. [-]"""
    return case.allocator.shown_share(case.traits.allocator.held_share)
