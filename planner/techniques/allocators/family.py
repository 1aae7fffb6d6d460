"""What an allocator of device memory keeps beside the tensors, and what it does where there is no room."""

from __future__ import annotations

from planner.dataclasses import dataclass


@dataclass(frozen=True)
class Allocator:
    """One way to find a place for each tensor on the device."""

    name: str
    """As in ``--set allocator=NAME``."""
    cite: str
    """Where it was read."""
    told: str
    """What a chance of running out of memory counts on, as users read it."""
    needed: float = 0.0
    """The least that it needs beside what passes take, as a share of that, where the device is full; more
    where a runtime's ``reserve_share`` is. [-]"""
    shown: float = 0.0
    """The least that it holds beside that where the device has room; more where ``held_share`` is. [-]"""
    planned: bool = False
    """Whether each tensor has its place before the job starts, so that nothing is kept beside them."""
    retries: bool = False
    """Whether blocks that it keeps free are given back, and asked for again, where one is too large for any
    of them."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    def needed_share(self, share: float) -> float:
        """Return what a device must have beside what passes take, from a runtime's own share. [-]"""
        return 0.0 if self.planned else max(share, self.needed)

    def shown_share(self, share: float) -> float:
        """Return the same as far as the device has room. [-]"""
        return 0.0 if self.planned else max(share, self.shown)
