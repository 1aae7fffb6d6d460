"""Measure benches on one device within a time, keeping every point as soon as it is known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from planner.profile.benches.family import Bench, Point
from planner.profile.device import Device
from planner.profile.health import roomy, works
from planner.profile.nvml import Driver
from planner.profile.sampling import Adaptive, basis_first, interleaved
from planner.profile.stopped import Stopped
from planner.profile.store import RawTable, Row, first_line
from planner.profile.timing import measure

POINT_SECONDS: Final = {"cpu": 0.04, "cuda": 0.03}
"""Time spent in sampling one point. [s]"""
MOST_INPUT_SETS: Final = 32
TELLING_OUTLIERS: Final = 0.1
"""Share of outlying samples from which a point counts as noisy. [-]"""

Tell = Callable[[int, float, str], None]
"""Told after each point: how many are measured, the share of the time that is used, and what was measured."""


@dataclass
class Session:
    """One measurement of a device."""

    device: Device
    """What is measured."""
    driver: Driver
    """Whom to ask for clocks."""
    table: RawTable
    """Where rows are kept."""
    seconds: float
    """Time that may be spent. [s]"""
    tell: Tell = lambda _count, _share, _what: None
    """Progress."""
    now: Callable[[], float] = time.monotonic
    """Seconds on a clock that never goes back."""
    start: float | None = None
    """When the time began to run, on that clock; now where not given. [s]"""

    def __post_init__(self) -> None:
        """Start the clock."""
        self.start = self.now() if self.start is None else self.start

    @property
    def spent(self) -> float:
        """Share of the time that is used. [-]"""
        return (self.now() - (self.start or 0.0)) / self.seconds

    def run(self, benches: Sequence[Bench]) -> list[Point]:
        """Measure what must be, then what is least certain; return what must be and was not."""
        by_name = {bench.name: bench for bench in benches}
        coarse = basis_first(interleaved([bench.coarse(self.device) for bench in benches]))
        finer = [point for bench in benches for point in bench.finer(self.device)]
        self._through(coarse, by_name)
        missing = [point for point in coarse if point.key not in self.table.keys]
        if not missing:
            self._refine(finer, coarse, by_name)
        return missing

    def _through(self, points: Iterable[Point], benches: dict[str, Bench]) -> None:
        for point in points:
            if self.spent >= 1:
                return
            if point.key not in self.table.keys:
                self.keep(point, benches[point.bench])

    def _refine(self, finer: Sequence[Point], coarse: Sequence[Point], benches: dict[str, Bench]) -> None:
        seconds = {row["key"]: row.get("seconds") for row in self.table.rows}
        known = [
            (point, float(seconds[point.key] or 0)) for point in (*coarse, *finer) if seconds.get(point.key)
        ]
        adaptive = Adaptive([point for point in finer if point.key not in seconds], known)
        for point in adaptive:
            if self.spent >= 1:
                return
            adaptive.learn(point, self.keep(point, benches[point.bench]).get("seconds"))

    def keep(self, point: Point, bench: Bench) -> Row:
        """Measure one point and keep its row, or the reason why the device refuses it."""
        row: Row = {
            "key": point.key,
            "bench": point.bench,
            "variant": point.variant,
            "dtype": point.dtype,
            "shape": dict(point.shape),
            "flops": point.flops,
            "bytes": point.nbytes,
        }
        facts, fault = self._timed(point, bench)
        row |= facts
        self.table.add(row)
        if fault:
            raise Stopped(
                f"{self.device.where} ({self.device.name}) does not work any more after {point.bench} "
                f"{point.variant} {point.dtype} {dict(point.shape)} ({fault}); the {len(self.table.rows)} "
                f"points measured so far are kept in {self.table.path}: the same command goes on after it"
            )
        self.tell(len(self.table.rows), min(self.spent, 1.0), f"{point.bench} {point.variant}")
        return row

    def _timed(self, point: Point, bench: Bench) -> tuple[Row, str]:
        """Return what is known of a point, and what is wrong with the device since then, if anything."""
        if not roomy(self.device, point.nbytes * 2):
            return {"refused": "too large for the device's memory"}, ""
        refused, fault = "", ""
        for count in dict.fromkeys((self.input_sets(point), 1)):
            try:
                return self._sampled(point, bench, count), ""
            except self.device.out_of_memory as error:
                refused = first_line(error)
            except Exception as error:
                refused = first_line(error)
                fault = "" if self.device.is_cpu else works(self.device.torch, self.device.where)
                return {"refused": refused}, fault
            finally:
                self._release(point, bool(refused))
        return {"refused": refused}, fault

    def _sampled(self, point: Point, bench: Bench, count: int) -> Row:
        """Time a point on this many input sets."""
        clock = bench.clock(point, self.device)
        calls = [bench.prepare(point, self.device) for _ in range(count)]
        timing = measure(calls, clock, POINT_SECONDS[self.device.kind], bench.hold_seconds)
        look = self.driver.reading()
        return {
            "seconds": timing.seconds,
            "samples": timing.samples,
            "outliers": timing.outliers,
            "spread": round(timing.spread, 5),
            "clock_mhz": look.clock_mhz,
            "temperature_c": look.temperature_c,
            "power_w": look.power_w,
            "slowdowns": list(look.slowdowns),
        }

    def input_sets(self, point: Point) -> int:
        """Return how many input sets it takes to be twice the size of the cache, if memory has room."""
        count = int(min(MOST_INPUT_SETS, max(2.0, -(-2 * self.device.cache // max(point.nbytes, 1.0)))))
        return count if roomy(self.device, 2 * count * point.nbytes) else 1

    def _release(self, point: Point, refused: bool) -> None:
        """Hand memory back; what a failed try still holds is gone once its error is handled."""
        if not self.device.is_cpu and (refused or point.nbytes > self.device.memory / 16):
            self.device.torch.cuda.empty_cache()


def notes(rows: Sequence[Row], missing: Sequence[Point]) -> list[str]:
    """Return in words what a reader of the result must know: refusals, heat, noise, and what is missing."""
    found = []
    timed = [row for row in rows if "seconds" in row]
    slowed = [row for row in timed if row.get("slowdowns")]
    if slowed:
        reasons = sorted({reason for row in slowed for reason in row["slowdowns"]})
        found.append(
            f"{len(slowed)} of {len(timed)} points ran throttled ({', '.join(reasons)}) and are left out"
        )
    noisy = [row for row in timed if row["outliers"] > TELLING_OUTLIERS * row["samples"]]
    if noisy:
        worst = max(noisy, key=lambda row: row["outliers"] / row["samples"])
        found.append(
            f"{len(noisy)} of {len(timed)} points have more than a tenth of outlying samples, most in "
            f"{worst['bench']} {worst['variant']} ({worst['outliers']} of {worst['samples']}); "
            "medians are taken"
        )
    found += [f"{count} points of {what} were refused: {reason}" for (what, reason), count in _refusals(rows)]
    if missing:
        kinds = ", ".join(sorted({point.bench for point in missing}))
        found.append(
            f"{len(missing)} points of the grid did not fit in the time ({kinds}); run again to go on"
        )
    return found


def _refusals(rows: Sequence[Row]) -> list[tuple[tuple[str, str], int]]:
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if "refused" in row:
            what = (f"{row['bench']} {row['variant']} {row['dtype']}", row["refused"])
            counts[what] = counts.get(what, 0) + 1
    return sorted(counts.items())


def usable(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the timed rows that ran at the machine's own speed: all of them where none did."""
    timed = [row for row in rows if "seconds" in row]
    return [row for row in timed if not row.get("slowdowns")] or timed
