"""Releases of Megatron-LM: Megatron-core's, and those before it."""

from __future__ import annotations

from planner.calibrate.releases.family import Release, Releases

_CORE = "Megatron-core, flags at their best"
_BEFORE = "no flash attention, no distributed optimizer"


def _core(name: str, date: str, files: str = "") -> Release:
    return Release(name, date, _CORE, f"megatron-lm {name}", files=files)


ENTRY = Releases(
    "megatron-lm",
    (
        Release("0.20", "2026-08-22", f"{_CORE}, as the files written here set it", files="0.20"),
        _core("0.19", "2026-08-19", "0.19"),
        _core("0.18", "2026-06-22", "0.18"),
        _core("0.17", "2026-04-14", "0.17"),
        _core("0.16", "2026-02-26", "0.16"),
        _core("0.15", "2026-01-07"),
        _core("0.11", "2025-03-14"),
        _core("0.7", "2024-05-30"),
        _core("0.4", "2023-12-11"),
        Release("2.6", "2021-08-27", _BEFORE, "megatron-lm 2.6", before_hopper=True),
        Release("2.5", "2021-08-10", _BEFORE, "megatron-lm 2.5", before_hopper=True),
        Release(
            "2.0",
            "2021-01-12",
            f"{_BEFORE}; messages between stages whole",
            "megatron-lm 2.0",
            before_hopper=True,
        ),
    ),
    "Megatron-LM, tags",
)
