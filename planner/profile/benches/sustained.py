"""Matrix products after a second of work without pause: the speed that hours of training hold."""

from __future__ import annotations

from typing import Final

from planner.profile.benches import gemm
from planner.profile.benches.family import Bench, Point, nothing
from planner.profile.device import Device

SHAPES: Final = ((8192, 8192, 8192), (16384, 4096, 4096), (4096, 16384, 4096), (8192, 4096, 16384))


def coarse_points(device: Device) -> list[Point]:
    """Return large products; a processor has no power limiter to wait for."""
    if device.is_cpu:
        return []
    kinds = [dtype for dtype in gemm.dtypes(device) if dtype not in gemm.BLOCKS]
    shapes = [dict(zip("mnk", shape, strict=True)) for shape in SHAPES]
    return [gemm.point("sustained", dtype, shape) for dtype in kinds for shape in shapes]


ENTRY = Bench(
    name="sustained",
    title="matrix products held for a second",
    coarse=coarse_points,
    finer=nothing,
    prepare=gemm.prepare,
    hold_seconds=1.0,
)
