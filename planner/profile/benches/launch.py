"""What a kernel costs that does nothing: on the device, and on the host that queues it."""

from __future__ import annotations

from planner.profile.benches.family import Bench, Point, nothing
from planner.profile.device import Device
from planner.profile.timing import Call, Clock, HostClock, clock_of


def coarse_points(_device: Device) -> list[Point]:
    """Return the empty kernel on the device, and its launch on the host."""
    return [Point("launch", variant, "fp32", {"elements": 1}, 0.0, 8.0) for variant in ("device", "host")]


def prepare(one: Point, device: Device) -> Call:
    """Return an addition to a single element."""
    number = device.torch.zeros(1, device=device.where)
    return lambda: number.add_(1)


def clock(one: Point, device: Device) -> Clock:
    """Return the host's own clock for its share of a launch: a call returns once its kernel is queued."""
    return HostClock() if one.variant == "host" else clock_of(device)


ENTRY = Bench(
    name="launch",
    title="kernel launches",
    coarse=coarse_points,
    finer=nothing,
    prepare=prepare,
    clock=clock,
)
