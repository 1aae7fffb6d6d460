"""Releases of Megatron-Bridge, and the NeMo containers that hold them."""

from __future__ import annotations

from planner.calibrate.releases.family import Release, Releases


def _released(name: str, date: str, brings: str, *containers: str) -> Release:
    return Release(name, date, brings, f"megatron-bridge {containers[0]}", containers)


ENTRY = Releases(
    "megatron-bridge",
    (
        Release(
            "0.7",
            "2026-08-22",
            "as the files written here set it: gradients in fp32, all-to-all dispatch, no graphs",
            files="0.7",
        ),
        _released("0.6", "2026-08-19", "recipes with graphs of the whole iteration on Blackwell", "26.08"),
        _released(
            "0.5",
            "2026-06-16",
            "recipes with graphs of the whole iteration and expert messages beside compute on Blackwell",
            "26.06",
            "26.06.01",
        ),
        _released("0.4", "2026-04-16", "Transformer Engine 2.14, cuDNN 9.20", "26.04", "26.04.01"),
        _released("0.3", "2026-02-26", "Transformer Engine 2.12, cuDNN 9.18", "26.02", "26.02.01"),
        _released("0.2", "2025-12-04", "Transformer Engine 2.9", "25.11"),
        _released("0.1", "2025-10-08", "the first recipes", "25.09"),
        Release("nemo-2.3", "2025-04", "NeMo 2, whose recipes became these", "nemo 25.04", ("25.04",)),
        Release("nemo-2.0", "2024-09", "NeMo, its loss not fused", "nemo 24.09", ("24.09",)),
    ),
    "Megatron-Bridge, tags and docs/releases/software-versions.md",
)
