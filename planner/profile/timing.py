"""Time calls on a device: warm-up, several input sets in turn, medians, outliers counted."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

import numpy as np

from planner.dataclasses import dataclass
from planner.profile.device import Device

Call = Callable[[], object]

LEAST_SAMPLES: Final = 5
MOST_SAMPLES: Final = 40
SHORTEST_SAMPLE: Final = 1e-4
"""Length below which a sample repeats its call, so that the clock's own grain is lost in it. [s]"""
SHORTEST_HELD_SAMPLE: Final = 2e-2
"""The same for a point that is held: a pause between samples would let the chip rest. [s]"""
HOLD_PARTS: Final = 10
OUTLIER_SPREADS: Final = 6.0
"""Distance from the median, in median absolute deviations, beyond which a sample is an outlier. [-]"""
LEAST_SPREAD: Final = 0.01
"""Deviation below which samples count as equal, as a share of the median. [-]"""


@dataclass(frozen=True)
class Timing:
    """Time of one call."""

    seconds: float
    """Median over the samples. [s]"""
    samples: int
    outliers: int
    """How many were taken, and how many of them lie far off. [-]"""
    spread: float
    """Median absolute deviation as a share of the median. [-]"""


class Clock(Protocol):
    """Takes samples on a device."""

    def samples(self, calls: Sequence[Call], repeats: int, count: int) -> list[float]: ...


class HostClock:
    """Times calls that return when they are done."""

    def samples(self, calls: Sequence[Call], repeats: int, count: int) -> list[float]:
        """Return seconds of one call, ``count`` times, each the mean of ``repeats``."""
        found = []
        for sample in range(count):
            turn = [calls[(sample * repeats + one) % len(calls)] for one in range(repeats)]
            start = time.perf_counter()
            for call in turn:
                call()
            found.append((time.perf_counter() - start) / repeats)
        return found


class EventClock:
    """Times calls that only queue work, by events of the device.

    The device first sleeps while the host queues a sample, so that the host's own time is not measured. How
    long the host takes is learnt on the way: a sample that it did not queue in time is taken again. Calls
    that wait for the device, such as copies from ordinary memory, cannot be queued ahead: they are not slept
    for.
    """

    HOST_SECONDS: Final = 2e-5
    CYCLES_PER_SECOND: Final = 2e9
    LONGEST_SLEEP: Final = 0.02
    MARGIN: Final = 1.5
    FAR_FASTER: Final = 4.0
    TRIES: Final = 3

    def __init__(self, device: Device) -> None:
        self.device = device
        self.host, self.busy = self.HOST_SECONDS, 0.0
        self.waits = False

    def samples(self, calls: Sequence[Call], repeats: int, count: int) -> list[float]:
        """Return seconds of one call, ``count`` times, each the mean of ``repeats``."""
        turns = itertools.cycle(calls)
        return [self._sample([next(turns) for _ in range(repeats)]) for _ in range(count)]

    def _sample(self, turn: Sequence[Call]) -> float:
        for _ in range(1 if self.waits else self.TRIES):
            turn = turn[: max(1, int(self.LONGEST_SLEEP / (self.MARGIN * self.host)))]
            ahead = self._ahead(len(turn))
            seconds, queueing = self._queued(turn, ahead)
            self.host = max(self.host, queueing)
            if queueing * len(turn) <= ahead or queueing < seconds / 2:
                self.busy = seconds
                return seconds
        self.waits = True
        return seconds

    def _ahead(self, calls: int) -> float:
        """How long the device sleeps: while one call is queued where the host is far the faster, else all."""
        if self.waits:
            return 0.0
        return self.MARGIN * self.host * (1 if self.busy > self.FAR_FASTER * self.host else calls)

    def _queued(self, turn: Sequence[Call], ahead: float) -> tuple[float, float]:
        """Return the device's seconds of one call, and the host's seconds of queueing it."""
        cuda = self.device.torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        if ahead:
            cuda._sleep(int(ahead * self.CYCLES_PER_SECOND))
        begin = time.perf_counter()
        start.record()
        for call in turn:
            call()
        end.record()
        queueing = time.perf_counter() - begin
        self.device.finish()
        return start.elapsed_time(end) * 1e-3 / len(turn), queueing / len(turn)


def clock_of(device: Device) -> Clock:
    """Return the clock that fits a device."""
    return HostClock() if device.is_cpu else EventClock(device)


def summary(samples: Sequence[float]) -> Timing:
    """Return median, spread and outliers of samples."""
    values = np.asarray(samples, dtype=np.float64)
    middle = float(np.median(values))
    deviation = float(np.median(np.abs(values - middle)))
    limit = OUTLIER_SPREADS * max(deviation, LEAST_SPREAD * middle)
    far = int(np.count_nonzero(np.abs(values - middle) > limit))
    return Timing(middle, values.size, far, deviation / middle if middle else 0.0)


def measure(calls: Sequence[Call], clock: Clock, seconds: float, hold: float = 0.0) -> Timing:
    """Time calls that do the same work on different inputs.

    Parameters
    ----------
    calls : sequence of callable
        One for each input set; they take turns, so that no cache holds what the next one reads.
    clock : Clock
        Of the device.
    seconds : float
        How long to sample; at least five samples are taken whatever they need. [s]
    hold : float
        How long to run without a pause before sampling, for the speed that lasts. [s]
    """
    for call in calls:
        call()
    first = max(float(np.median(clock.samples(calls, 1, 3))), 1e-9)
    if hold > 0:
        clock.samples(calls, max(1, math.ceil(hold / first / HOLD_PARTS)), HOLD_PARTS)
    repeats = max(1, math.ceil((SHORTEST_HELD_SAMPLE if hold > 0 else SHORTEST_SAMPLE) / first))
    count = int(np.clip(seconds / (first * repeats), LEAST_SAMPLES, MOST_SAMPLES))
    return summary(clock.samples(calls, repeats, count))
