"""Collectives by size and group over each tier, what they cost the compute beside them, and who is slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from planner.formulas.collective_curves import BUS_FACTOR
from planner.profile.benches.family import Point
from planner.profile.device import Device
from planner.profile.ranks import RankGroup, Ranks
from planner.profile.stopped import Stopped
from planner.profile.store import Row, first_line
from planner.profile.timing import clock_of, measure, summary
from planner.units import KIB, MIB

SIZES: Final = {
    "cpu": tuple(int(4**power * KIB) for power in range(0, 8)),
    "cuda": tuple(int(4**power * KIB) for power in range(0, 11)),
}
"""Buffers as nccl-tests counts them, 1 KiB to 16 MiB or 1 GiB. [byte]"""
ELEMENT_BYTES: Final = {"cpu": 4, "cuda": 2}
CALL_SECONDS: Final = 0.2
"""Time spent on one collective of one size. [s]"""
PROBE: Final = {"cpu": 256, "cuda": 4096}
"""Edge of the product that compares ranks, and that runs beside a collective. [element]"""
OVERLAPPED: Final = {"cpu": 4 * MIB, "cuda": 1024 * MIB}
"""Buffer of the all-reduce beside which products are timed. [byte]"""
BESIDE_SAMPLES: Final = 9


def sizes(device: Device, group: RankGroup) -> Iterator[int]:
    """Yield buffer sizes that divide evenly among the ranks. [byte]"""
    step = ELEMENT_BYTES[device.kind] * len(group.ranks) ** 2
    for size in SIZES[device.kind]:
        if size >= step:
            yield size // step * step


def operation(
    ranks: Ranks, group: RankGroup, device: Device, name: str, nbytes: int
) -> Callable[[bool], Any]:
    """Return a collective on random data, told whether to return a handle instead of waiting.

    ``nbytes`` is the full buffer: of an all-gather its result, of a reduce-scatter its input.
    """
    torch, dist, members = device.torch, ranks.dist, len(group.ranks)
    dtype = torch.float32 if device.is_cpu else torch.bfloat16
    whole = torch.randn(nbytes // ELEMENT_BYTES[device.kind], device=device.where).to(dtype)
    part, other = whole[: whole.numel() // members].clone(), torch.empty_like(whole)
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
    calls: dict[str, Callable[[bool], Any]] = {
        "all_reduce": lambda later: dist.all_reduce(whole, group=group.handle, async_op=later),
        "all_gather": lambda later: gather(whole, part, group=group.handle, async_op=later),
        "reduce_scatter": lambda later: scatter(part, whole, group=group.handle, async_op=later),
        "all_to_all": lambda later: dist.all_to_all_single(other, whole, group=group.handle, async_op=later),
    }
    return calls[name]


def row_of(point: Point, **facts: Any) -> Row:
    """Return a row of the raw table."""
    head = {"key": point.key, "bench": point.bench, "variant": point.variant, "dtype": point.dtype}
    return {**head, "shape": dict(point.shape), "flops": point.flops, "bytes": point.nbytes, **facts}


def point_of(name: str, group: RankGroup, nbytes: int) -> Point:
    """Return one collective, group and size as a point; bytes are those that cross the busiest link."""
    members = len(group.ranks)
    crossing = BUS_FACTOR[name] * (members - 1) / members * nbytes
    shape = {"ranks": members, "nodes": group.nodes, "bytes": nbytes}
    return Point("collectives", name, "data", shape, 0.0, crossing)


def measure_group(ranks: Ranks, group: RankGroup, device: Device, known: set[str]) -> Iterator[Row]:
    """Yield a row for each collective and size that is not known; every member must ask alike."""
    for nbytes in sizes(device, group):
        for name in BUS_FACTOR:
            point = point_of(name, group, nbytes)
            if point.key not in known:
                yield _measured(ranks, group, device, point)


def _measured(ranks: Ranks, group: RankGroup, device: Device, point: Point) -> Row:
    what = f"{point.variant} of {point.shape['bytes']} bytes"
    ranks.arrive(what, group)
    try:
        with ranks.watched(what, group):
            run = operation(ranks, group, device, point.variant, point.shape["bytes"])
            run(False)
            device.finish()
        seconds = _agreed_seconds(ranks, group, device, run, what)
    except (RuntimeError, NotImplementedError) as error:
        if "imed out" in str(error) or "imeout" in str(error):
            raise Stopped(ranks.hung(what, group)) from None
        return row_of(point, refused=first_line(error))
    timing = summary(seconds)
    return row_of(
        point,
        seconds=timing.seconds,
        samples=timing.samples,
        outliers=timing.outliers,
        spread=round(timing.spread, 5),
    )


def _agreed_seconds(
    ranks: Ranks, group: RankGroup, device: Device, run: Callable[[bool], Any], what: str
) -> list[float]:
    """Time as often as the first member says, so that all members make the same calls; each is watched."""
    torch = device.torch

    def timed(calls: int) -> float:
        with ranks.watched(what, group):
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
    """Time products alone, and beside an all-reduce of all ranks that lasts longer than they do."""
    group, edge, nbytes = ranks.world, PROBE[device.kind], int(OVERLAPPED[device.kind])
    left, right = (device.torch.randn(edge, edge, device=device.where).to(device.dtype("bf16")) for _ in "ab")
    step = ELEMENT_BYTES[device.kind] * len(group.ranks)
    run = operation(ranks, group, device, "all_reduce", nbytes // step * step)
    what = "products beside an all-reduce"
    ranks.arrive(what, group)

    def product() -> None:
        device.torch.matmul(left, right)

    with ranks.watched(what, group):
        alone = measure([product], clock_of(device), 0.2).seconds
        count = _fitting(ranks, device, run, alone)
    ranks.arrive(what, group)
    with ranks.watched(what, group):
        beside = [_beside(device, run, product, count) for _ in range(BESIDE_SAMPLES)]
    shape = {"ranks": len(group.ranks), "nodes": group.nodes, "edge": edge, "bytes": nbytes}
    point = Point("overlap", "product-beside-all-reduce", "bf16", shape, 2.0 * edge**3, 0.0)
    inside = [seconds for seconds, covered in beside if covered]
    if not inside:
        return row_of(point, refused="the all-reduce ended before the products did")
    timing = summary(inside)
    return row_of(point, seconds=timing.seconds, alone_seconds=alone, samples=timing.samples,
                  outliers=timing.outliers, spread=round(timing.spread, 5))  # fmt: skip


def _fitting(ranks: Ranks, device: Device, run: Callable[[bool], Any], alone: float) -> int:
    """Products that fit into half of an all-reduce, as the first rank counts them; at least one."""
    run(False)
    device.finish()
    start = time.perf_counter()
    run(False)
    device.finish()
    lasts = time.perf_counter() - start
    count = device.torch.tensor([max(1, int(lasts / 2 / alone))])
    ranks.dist.broadcast(count, src=0, group=ranks.world.watch)
    return int(count)


def _beside(
    device: Device, run: Callable[[bool], Any], product: Callable[[], None], count: int
) -> tuple[float, bool]:
    """Seconds of one of several products that follow a collective, and whether it outlasted them.

    On a GPU the collective has a stream of its own: events around the products wait for nothing but them.
    """
    if device.is_cpu:
        handle = run(True)
        start = time.perf_counter()
        for _ in range(count):
            product()
        seconds, covered = (time.perf_counter() - start) / count, not handle.is_completed()
        handle.wait()
        return seconds, covered
    cuda = device.torch.cuda
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    handle = run(True)
    begin.record()
    for _ in range(count):
        product()
    end.record()
    end.synchronize()
    covered = not handle.is_completed()
    handle.wait()
    device.finish()
    return begin.elapsed_time(end) * 1e-3 / count, covered


def rank_rates(ranks: Ranks, device: Device) -> list[float]:
    """Rate of one large product on every rank, measured at the same time. [FLOP/s]"""
    edge = PROBE[device.kind]
    left, right = (device.torch.randn(edge, edge, device=device.where).to(device.dtype("bf16")) for _ in "ab")
    ranks.arrive("the comparison of ranks", ranks.world)

    timing = measure([lambda: device.torch.matmul(left, right)], clock_of(device), 0.2)
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
