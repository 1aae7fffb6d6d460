"""A GPU that is not there: a clock for the host, one for the device, and as much of torch as measuring needs.

A call on it takes the device the seconds that a law says, after the host has taken its own to queue it. What
runs is the code that runs on a GPU: events, sleeps, memory, refusals.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from planner.profile.benches import benches
from planner.profile.benches.family import Bench, Point
from planner.profile.device import Device
from planner.profile.timing import Call
from planner.units import GIB, MIB

Law = Callable[[Point], float]
"""Seconds that the device takes for one call of a point."""


class OutOfMemory(RuntimeError):
    """As torch raises it."""


class Event:
    """A mark on the device's own time."""

    def __init__(self, gpu: VirtualGpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        self.gpu.host += self.gpu.mark_seconds
        self.gpu.device = max(self.gpu.device, self.gpu.host)
        self.at = self.gpu.device

    def synchronize(self) -> None:
        self.gpu.host = max(self.gpu.host, self.at)

    def elapsed_time(self, other: Event) -> float:
        return (other.at - self.at) * 1e3


@dataclass
class VirtualGpu:
    """The two clocks, and what goes wrong when.

    Parameters
    ----------
    law : callable
        Seconds of a point on the device.
    noise : float
        Standard deviation of a call's time, as a share of it. [-]
    queue_seconds, mark_seconds : float
        What the host takes to queue a call, and an event. [s]
    clock_rate : float
        Cycles a second that a sleep counts. [1/s]
    memory : float
        Of the device. [byte]
    fails : Mapping
        Number of the call in the whole run to what it raises.
    """

    law: Law
    noise: float = 0.0
    queue_seconds: float = 1e-5
    mark_seconds: float = 2e-6
    clock_rate: float = 1.755e9
    memory: float = 79.1 * GIB
    fails: Mapping[int, Exception] = field(default_factory=dict)
    host: float = 0.0
    device: float = 0.0
    calls: int = 0
    emptied: int = 0
    broken: str = ""

    def __post_init__(self) -> None:
        self.dice = random.Random(1)
        self.known: dict[int, float] = {}
        self.seen: list[Point] = []

    def queue(self, seconds: float) -> None:
        """Queue work of this length."""
        self.host += self.queue_seconds
        self.device = max(self.device, self.host) + seconds

    def synchronize(self, _index: int = 0) -> None:
        self.host = max(self.host, self.device)

    def sleep(self, cycles: int) -> None:
        self.queue(cycles / self.clock_rate)

    def now(self) -> float:
        """The host's clock, which looking at moves a little."""
        self.host += 1e-7
        return self.host

    def call(self, point: Point, waits: bool = False) -> None:
        """Run a point once."""
        self.calls += 1
        if self.calls in self.fails:
            raise self.fails[self.calls]
        if (known := self.known.get(id(point))) is None:
            known = self.known[id(point)] = self.law(point)
            self.seen.append(point)
        self.queue(known * (1.0 + self.noise * self.dice.gauss(0.0, 1.0) if self.noise else 1.0))
        if waits:
            self.synchronize()

    def prepare(self, point: Point, _device: Device) -> Call:
        """Draw an input set: written once in 16 bit, which the host queues in three calls."""
        for _ in range(3):
            self.queue(point.nbytes / 3 / 2e12)
        waits = point.variant.endswith("pageable")
        return lambda: self.call(point, waits)

    def empty_cache(self) -> None:
        self.emptied += 1
        self.synchronize()
        self.host += 1e-3

    def ones(self, *_size: int, dtype: Any, device: str) -> Any:
        """Return a matrix whose product is right where the device works."""
        if self.broken:
            raise RuntimeError(self.broken)

        class Matrix:
            def __matmul__(self, other: Matrix) -> Matrix:
                return self

            def sum(self) -> float:
                return 256.0**3

        return Matrix()

    @property
    def torch(self) -> Any:
        """As much of torch as measuring asks for."""
        facts = SimpleNamespace(
            name="NVIDIA H100 80GB HBM3", total_memory=self.memory, L2_cache_size=50 * MIB,
            multi_processor_count=132, major=9, minor=0, uuid="8f6b1a9c-0000-0000-0000-000000000000",
        )  # fmt: skip
        cuda = SimpleNamespace(
            Event=lambda enable_timing: Event(self),
            _sleep=self.sleep,
            synchronize=self.synchronize,
            empty_cache=self.empty_cache,
            is_available=lambda: True,
            device_count=lambda: 1,
            set_device=lambda _index: None,
            get_device_properties=lambda _index: facts,
            mem_get_info=lambda _index: (self.memory - 0.5 * GIB, self.memory),
            memory_reserved=lambda _index: 0,
            nccl=SimpleNamespace(version=lambda: (2, 29, 1)),
        )
        version = SimpleNamespace(cuda="13.0", hip=None)
        return SimpleNamespace(
            cuda=cuda, version=version, __version__="2.13.0+cu130", OutOfMemoryError=OutOfMemory,
            ones=self.ones, float32="float32", manual_seed=lambda _seed: None,
        )  # fmt: skip

    def opened(self, capability: float = 9.0) -> Device:
        """Return it as a device."""
        return Device(
            "cuda", 0, "NVIDIA H100 80GB HBM3", self.memory, 50.0 * MIB, 132, capability, self.torch
        )

    def benches(self) -> dict[str, Bench]:
        """Return all benches with their own points and clocks, run on this GPU."""
        return {name: replace(bench, prepare=self.prepare) for name, bench in benches().items()}
