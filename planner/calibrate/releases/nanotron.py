"""Releases of nanotron."""

from planner.calibrate.releases.family import Release, Releases

ENTRY = Releases(
    "nanotron",
    (Release("0.5", "2026-04-07", "nanotron as the files written here set it", files="0.5"),),
    "nanotron, 2411b022",
)
