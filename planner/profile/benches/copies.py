"""Copies between host and device, from pinned and from ordinary memory."""

from __future__ import annotations

from typing import Final

from planner.profile.benches.family import Bench, Point, nothing
from planner.profile.device import Device
from planner.profile.timing import Call
from planner.units import MIB

VARIANTS: Final = ("to-device-pinned", "to-device-pageable", "to-host-pinned", "to-host-pageable")
SIZES: Final = (1, 16, 64, 256)
"""Sizes that are copied. [MiB]"""


def coarse_points(device: Device) -> list[Point]:
    """Return copies of every kind; a processor has no other memory to copy to."""
    if device.is_cpu:
        return []
    return [
        Point("copies", variant, "bytes", {"bytes": int(size * MIB)}, 0.0, size * MIB)
        for size in SIZES
        for variant in VARIANTS
    ]


def prepare(one: Point, device: Device) -> Call:
    """Return a copy of random bytes, which the device draws far faster than the host does."""
    torch = device.torch
    pinned = one.variant.endswith("pinned")
    there = torch.randint(0, 256, (one.shape["bytes"],), dtype=torch.uint8, device=device.where)
    host = torch.empty(one.shape["bytes"], dtype=torch.uint8, pin_memory=pinned).copy_(there)
    if one.variant.startswith("to-device"):
        return lambda: there.copy_(host, non_blocking=pinned)
    return lambda: host.copy_(there, non_blocking=pinned)


ENTRY = Bench(
    name="copies",
    title="copies between host and device",
    coarse=coarse_points,
    finer=nothing,
    prepare=prepare,
)
