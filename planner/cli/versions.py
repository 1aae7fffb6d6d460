"""Say where a cluster's curves were measured with other software than runs here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from planner.deferred import deferred

with deferred():
    from planner.profile import running

if TYPE_CHECKING:
    from planner.inputs.hardware import HardwareProfile


def version_notes(profiles: Iterable[HardwareProfile]) -> list[str]:
    """Return what has changed here since profiles were measured; those that ship cost nothing."""
    measured = [
        profile
        for profile in profiles
        if any(pool.accelerator.curves.endswith((".yaml", ".yml")) for pool in profile.pools)
    ]
    if not measured:
        return []

    now = running.running_versions()
    return list(dict.fromkeys(note for profile in measured for note in running.software_notes(profile, now)))
