"""The number formats of a workload, against those for which accelerators have a rate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from planner.inputs.hardware import HardwareProfile
from planner.inputs.workload import Workload
from planner.question.reading import Reading
from planner.techniques.precision import PRECISIONS, nearest_format


def formats(profile: HardwareProfile) -> list[str]:
    """Return the precisions for which an accelerator has a rate."""
    peaks, curves = profile.pool.accelerator.peak, profile.pool.accelerator.kernels.gemm
    return [entry.name for entry in PRECISIONS.values() if entry.peak in peaks and entry.linear in curves]


def in_a_format_of(
    clusters: Iterable[HardwareProfile], workload: Workload, defaults: dict[str, Any]
) -> Workload:
    """Return the workload in the format nearest to the usual one that every accelerator has, if one is."""
    known = [formats(profile) for profile in clusters]
    able = [name for name in known[0] if all(name in one for one in known)] if known else []
    if not able or workload.precision in able:
        return workload
    defaults["precision"] = nearest_format(workload.precision, able)
    return workload.model_copy(update={"precision": defaults["precision"]})


def check_precision(profile: HardwareProfile, workload: Workload | None, reading: Reading) -> None:
    """Note a precision for which an accelerator has no rate."""
    if workload is None:
        return
    able = formats(profile)
    if workload.precision in able:
        return
    found = f"{workload.precision!r} on {profile.pool.accelerator.name}"
    near = nearest_format(workload.precision, able)
    reading.fault("precision", found, f"one of {', '.join(able)}" if able else "nothing that it has", near)
