"""Releases of torchtitan."""

from planner.calibrate.releases.family import Release, Releases

ENTRY = Releases(
    "torchtitan",
    (
        Release(
            "main-2026-08-21",
            "2026-08-21",
            "as the files written here set it: the loss in eight parts, float8 by rows",
            files="main-2026-08-21",
        ),
        Release(
            "0.2.2",
            "2026-02-20",
            "recompute of whole layers, the loss whole",
            "torchtitan 0.2.2",
            files="0.2.2",
        ),
        Release("0.2.1", "2025-12-26", "recompute that stops early", "torchtitan 0.2.1", files="0.2.1"),
        Release("0.2.0", "2025-10-17", "recompute that stops early", "torchtitan 0.2.0", files="0.2.0"),
        Release("2024", "2024", "nothing compiled", "torchtitan 2024"),
    ),
    "torchtitan, tags and assets/version.txt",
)
