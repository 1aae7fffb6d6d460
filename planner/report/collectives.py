"""What nccl-tests should show on a cluster: time, algorithm and bus bandwidth by collective and size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from planner.cost.job_tiers import job_tiers
from planner.dataclasses import dataclass
from planner.formulas.collectives import Tier, all_to_all_seconds
from planner.formulas.messages import point_to_point_seconds
from planner.formulas.ring_start import all_reduce_seconds, started_ring_seconds
from planner.inputs.hardware import HardwareProfile
from planner.numeric import Num
from planner.report.as_json import Document
from planner.report.page import Page, Table, counted, significant
from planner.units import GB, MIB, show

SIZES: Final = tuple(MIB * 4.0**step for step in range(8))
"""From 1 MiB to 16 GiB. [byte]"""


@dataclass(frozen=True)
class CollectiveRow:
    """One program of nccl-tests."""

    name: str
    """What it runs."""
    seconds: Callable[[float, int, float, Sequence[Tier]], Num]
    """Time from size, ranks, stride between the nodes' first ranks, and tiers."""
    bus_factor: Callable[[int], float]
    """Bus bandwidth over algorithm bandwidth, from the number of ranks."""


COLLECTIVES: Final = (
    CollectiveRow(
        "all-gather", lambda size, n, _, tiers: started_ring_seconds(size, n, 1, tiers), lambda n: (n - 1) / n
    ),
    CollectiveRow(
        "reduce-scatter",
        lambda size, n, _, tiers: started_ring_seconds(size, n, 1, tiers),
        lambda n: (n - 1) / n,
    ),
    CollectiveRow(
        "all-reduce",
        lambda size, n, _, tiers: all_reduce_seconds(size, n, 1, tiers),
        lambda n: 2 * (n - 1) / n,
    ),
    CollectiveRow(
        "all-to-all",
        lambda size, n, _, tiers: all_to_all_seconds(size, n, 1, tiers),
        lambda n: (n - 1) / n,
    ),
    CollectiveRow(
        "send-receive",
        lambda size, _, stride, tiers: point_to_point_seconds(size, stride, tiers),
        lambda _: 1.0,
    ),
)
"""Sizes and factors are those of nccl-tests' PERFORMANCE.md: the size is that of the whole buffer."""


def collective_rows(
    profile: HardwareProfile, gpus: int, sizes: Sequence[float] = SIZES
) -> Iterator[Document]:
    """Yield one row for each collective and size on the first ``gpus`` accelerators."""
    tiers, domain = job_tiers(profile.pool, gpus), profile.pool.scaleup_domain
    for one in COLLECTIVES:
        for size in sizes:
            seconds = float(one.seconds(size, gpus, float(domain if gpus > domain else 1), tiers))
            yield {
                "collective": one.name,
                "gpus": gpus,
                "size_bytes": int(size),
                "time_s": seconds,
                "algbw_gb_per_s": size / seconds / GB,
                "busbw_gb_per_s": size / seconds * one.bus_factor(gpus) / GB,
            }


def collectives_page(profile: HardwareProfile, gpus: int, sizes: Sequence[float] = SIZES) -> Page:
    """Return bus bandwidth by size for people, with what the links can carry."""
    pool = profile.pool
    rows = [*collective_rows(profile, gpus, sizes)]
    table = [
        {"size": show(size, "byte")}
        | {
            row["collective"]: significant(row["busbw_gb_per_s"], 3)
            for row in rows
            if row["size_bytes"] == int(size)
        }
        for size in sizes
    ]
    used = [
        tier for number, tier in enumerate(pool.tiers) if number == 0 or gpus > pool.tiers[number - 1].domain
    ]
    links = "; ".join(
        f"{tier.name} {show(tier.bandwidth, 'byte/s')}, {show(tier.latency, 's')} a hop" for tier in used
    )
    lines = f"{pool.nic_bandwidth / GB:.4g} GB/s" if pool.nic_bandwidth else "none"
    return [
        f"Bus bandwidth on {counted(gpus, 'accelerator')} of {profile.name}, GB/s, as nccl-tests counts it:",
        Table(tuple(table)),
        f"Collectives reach, one accelerator and direction: {links}; "
        f"line rate of its network ports: {lines}.",
        "Rings are priced. A tree over two nodes or a reduction in the switch can show more than the line "
        "rate; compare with NCCL_ALGO=RING. `planner hardware import` reads the log of a run.",
    ]
