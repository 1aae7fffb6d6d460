"""Releases of Accelerate, which starts FSDP2."""

from planner.calibrate.releases.family import Release, Releases

ENTRY = Releases(
    "fsdp",
    (Release("1.15.0", "2026", "FSDP2 as the files written here set it", files="1.15.0"),),
    "Accelerate, tags",
)
