"""Collectives by size and group over each tier, what they cost the compute beside them, and who is slow."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from planner.formulas.collective_curves import BUS_FACTOR
from planner.profile.benches._family import Point
from planner.profile.device import Device
from planner.profile.ranks import Group, Ranks
from planner.profile.stopped import Stopped
from planner.profile.store import Row
from planner.profile.timing import HostClock, measure, summary
from planner.units import KIB, MIB

SIZES: Final = {
    "cpu": tuple(int(4**power * KIB) for power in range(0, 8)),
    "cuda": tuple(int(4**power * KIB) for power in range(0, 11)),
}
"""Buffers as nccl-tests counts them, 1 KiB to 16 MiB or 1 GiB. [byte]"""
ELEMENT_BYTES: Final = {"cpu": 4, "cuda": 2}
CALL_SECONDS: Final = 0.2
"""Time spent on one collective of one size. [s]"""
PROBE: Final = {"cpu": 256, "cuda": 8192}
"""Edge of the product that compares ranks, and that runs beside a collective. [element]"""
OVERLAPPED: Final = {"cpu": 4 * MIB, "cuda": 256 * MIB}


def sizes(device: Device, group: Group) -> Iterator[int]:
    """Yield buffer sizes that divide evenly among the ranks. [byte]"""
    step = ELEMENT_BYTES[device.kind] * len(group.ranks) ** 2
    for size in SIZES[device.kind]:
        if size >= step:
            yield size // step * step


def operation(ranks: Ranks, group: Group, device: Device, name: str, nbytes: int) -> Callable[[bool], Any]:
    """Return a collective on random data, told whether to return a handle instead of waiting.

    ``nbytes`` is the full buffer: of an all-gather its result, of a reduce-scatter its input.
    """
    torch, dist, members = device.torch, ranks.dist, len(group.ranks)
    dtype = torch.float32 if device.is_cpu else torch.bfloat16
    whole = torch.randn(nbytes // ELEMENT_BYTES[device.kind], device=device.where).to(dtype)
    part = whole[: whole.numel() // members].clone()
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    calls: dict[str, Callable[[bool], Any]] = {
        "all_reduce": lambda later: dist.all_reduce(whole, group=group.handle, async_op=later),
        "all_gather": lambda later: gather(whole, part, group=group.handle, async_op=later),
        "reduce_scatter": lambda later: scatter(part, whole, group=group.handle, async_op=later),
        "all_to_all": lambda later: dist.all_to_all_single(
            torch.empty_like(whole), whole, group=group.handle, async_op=later
        ),
    }
    return calls[name]


def first_run(ranks: Ranks, group: Group, what: str, run: Callable[[bool], Any]) -> None:
    """Run a collective once, and give up where it does not end.

    Raises
    ------
    Stopped
        If it hangs; the message names this rank and the group.
    """
    handle = run(True)
    if not ended(handle, ranks):
        raise Stopped(
            f"{what} in group {group.name} has not ended after {ranks.seconds:.0f} s on rank {ranks.rank} "
            f"({ranks.backend} hangs); what was measured so far is kept"
        )


def ended(handle: Any, ranks: Ranks) -> bool:
    """Wait for a collective and say whether it ended in time; NCCL has to be watched from outside."""
    if ranks.backend == "gloo":
        try:
            return bool(handle.wait(datetime.timedelta(seconds=ranks.seconds)))
        except RuntimeError as error:
            if "imed out" in str(error) or "imeout" in str(error):
                return False
            raise
    end = time.monotonic() + ranks.seconds
    while not handle.is_completed():
        if time.monotonic() > end:
            return False
        time.sleep(1e-4)
    return bool(handle.wait())


def row_of(point: Point, **facts: Any) -> Row:
    """Return a row of the raw table."""
    head = {"key": point.key, "bench": point.bench, "variant": point.variant, "dtype": point.dtype}
    return {**head, "shape": dict(point.shape), "flops": point.flops, "bytes": point.nbytes, **facts}


def point_of(name: str, group: Group, nbytes: int) -> Point:
    """Return one collective, group and size as a point; bytes are those that cross the busiest link."""
    members = len(group.ranks)
    crossing = BUS_FACTOR[name] * (members - 1) / members * nbytes
    shape = {"ranks": members, "nodes": group.nodes, "bytes": nbytes}
    return Point("collectives", name, "data", shape, 0.0, crossing)


def measure_group(ranks: Ranks, group: Group, device: Device, known: set[str]) -> Iterator[Row]:
    """Yield a row for each collective and size that is not known; every member must ask alike."""
    for nbytes in sizes(device, group):
        for name in BUS_FACTOR:
            point = point_of(name, group, nbytes)
            if point.key not in known:
                yield _measured(ranks, group, device, point)


def _measured(ranks: Ranks, group: Group, device: Device, point: Point) -> Row:
    what = f"{point.variant} of {point.shape['bytes']} bytes"
    ranks.arrive(what, group)
    try:
        run = operation(ranks, group, device, point.variant, point.shape["bytes"])
        first_run(ranks, group, what, run)
        seconds = _agreed_seconds(ranks, group, device, run)
    except (RuntimeError, NotImplementedError) as error:
        return row_of(point, refused=str(error).splitlines()[0][:200])
    timing = summary(seconds)
    return row_of(
        point,
        seconds=timing.seconds,
        samples=timing.samples,
        outliers=timing.outliers,
        spread=round(timing.spread, 5),
    )


def _agreed_seconds(ranks: Ranks, group: Group, device: Device, run: Callable[[bool], Any]) -> list[float]:
    """Time as often as the first member says, so that all members make the same calls."""
    torch = device.torch

    def timed(calls: int) -> float:
        device.finish()
        start = time.perf_counter()
        for _ in range(calls):
            run(False)
        device.finish()
        return (time.perf_counter() - start) / calls

    count = torch.tensor([max(1, min(50, int(CALL_SECONDS / 8 / max(timed(2), 1e-6))))])
    ranks.dist.broadcast(count, src=group.ranks[0], group=group.watch)
    return [timed(int(count)) for _ in range(8)]


def known_everywhere(ranks: Ranks, known: set[str]) -> set[str]:
    """Return the keys that the first rank knows, which keeps the table."""
    box = [sorted(known)]
    ranks.dist.broadcast_object_list(box, src=0, group=ranks.world.watch)
    return set(box[0])


def slowdown_row(ranks: Ranks, device: Device) -> Row:
    """Time products alone, and beside an all-reduce of all ranks."""
    group, edge, nbytes = ranks.world, PROBE[device.kind], int(OVERLAPPED[device.kind])
    left, right = (device.torch.randn(edge, edge, device=device.where).to(device.dtype("bf16")) for _ in "ab")
    step = ELEMENT_BYTES[device.kind] * len(group.ranks)
    run = operation(ranks, group, device, "all_reduce", nbytes // step * step)
    ranks.arrive("products beside an all-reduce", group)

    def product() -> None:
        device.torch.matmul(left, right)
        device.finish()

    alone = measure([product], HostClock(), 0.2).seconds
    ranks.arrive("products beside an all-reduce", group)
    beside = []
    for _ in range(5):
        handle = run(True)
        start, count = time.perf_counter(), 0
        while not handle.is_completed() and count < 1000:
            product()
            count += 1
        beside += [(time.perf_counter() - start) / count] if count else []
        handle.wait()
        device.finish()
    shape = {"ranks": len(group.ranks), "nodes": group.nodes, "edge": edge, "bytes": nbytes}
    point = Point("overlap", "product-beside-all-reduce", "bf16", shape, 2.0 * edge**3, 0.0)
    if not beside:
        return row_of(point, refused="the all-reduce ended before a product did")
    timing = summary(beside)
    return row_of(point, seconds=timing.seconds, alone_seconds=alone, samples=timing.samples,
                  outliers=timing.outliers, spread=round(timing.spread, 5))  # fmt: skip


def rank_rates(ranks: Ranks, device: Device) -> list[float]:
    """Rate of one large product on every rank, measured at the same time. [FLOP/s]"""
    edge = PROBE[device.kind]
    left, right = (device.torch.randn(edge, edge, device=device.where).to(device.dtype("bf16")) for _ in "ab")
    ranks.arrive("the comparison of ranks", ranks.world)

    def product() -> None:
        device.torch.matmul(left, right)
        device.finish()

    timing = measure([product], HostClock(), 0.2)
    rates: list[Any] = [None] * ranks.size
    ranks.dist.all_gather_object(rates, 2.0 * edge**3 / timing.seconds, group=ranks.world.watch)
    return [float(rate) for rate in rates]


def straggler_note(rates: Sequence[float], tolerance: float = 0.1) -> str:
    """Return in words which rank is slow, or nothing where none is.

    Examples
    --------
    >>> straggler_note([780e12, 790e12, 600e12, 785e12])
    'rank 2 is slow: 600 of 782 TFLOP/s in the same product; a step waits for the slowest'
    """
    ordered = sorted(rates)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    if ordered[0] >= (1 - tolerance) * middle:
        return ""
    slow = rates.index(ordered[0])
    return (
        f"rank {slow} is slow: {ordered[0] / 1e12:.3g} of {middle / 1e12:.3g} TFLOP/s in the same product; "
        "a step waits for the slowest"
    )
