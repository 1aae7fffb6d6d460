"""Accelerators that stand idle: a count that no plan can use in full, or more than a job can make use of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.search.legality import Legality
from planner.search.request import SearchRequest, objective_column, scan_of
from planner.search.scan import Scan

MOST_COUNTS: Final = 16
"""Counts below the one that is asked for that are tried, one node less each."""

SEARCHED: Final = 2
"""Of these the ones that are searched: the power of two and the largest that some plan can use."""

AS_WELL: Final = 1.05
"""Time over that of all accelerators up to which fewer do as well: less than any error band. [-]"""


@dataclass(frozen=True)
class Fewer:
    """A smaller count that does as well as the one that is asked for."""

    gpus: int
    """Accelerators."""
    step: float
    """Seconds of a step on them. [s]"""


def smaller_counts(gpus: int, per_node: int) -> Iterator[int]:
    """Yield smaller counts that fill nodes, the largest power of two of them first.

    Examples
    --------
    >>> list(smaller_counts(520, 8))[:4], list(smaller_counts(7, 8)), list(smaller_counts(12, 8))
    ([512, 504, 496, 488], [4, 6, 5, 3, 2, 1], [8])
    """
    unit = per_node if gpus > per_node else 1
    whole = (gpus - 1) // unit
    if not whole:
        return
    power = 2 ** (whole.bit_length() - 1)
    yield power * unit
    yield from (count * unit for count in range(whole, 0, -1) if count != power)


def on_fewer(request: SearchRequest) -> SearchRequest | None:
    """Return the request on fewer accelerators where no plan can use as many; None where none can use fewer.

    The largest power of two of nodes stands for all: where no plan can use that, the count is not at fault.
    """
    asked = max(request.gpu_counts)
    node = min(cluster.pool.gpus_per_node for cluster in request.clusters)
    found: list[int] = []
    for number, gpus in enumerate(smaller_counts(asked, node)):
        usable = any(_usable(scan) for scan in _scans(request, gpus))
        found += [gpus] if usable else []
        if not found or number >= MOST_COUNTS or len(found) >= SEARCHED:
            break
    return replace(request, gpu_counts=tuple(sorted(found)), cluster_gpus=asked) if found else None


def does_as_well(request: SearchRequest, best: Estimate) -> Fewer | None:
    """Return the smallest count found, by powers of two of nodes, on which a step takes no longer.

    Only counts are looked at on which computing and the exchange of experts' tokens alone, at the best plan's
    rates, are done in time.
    """
    found: Fewer | None = None
    gpus, node = best.job.gpus, best.job.hardware.pool.gpus_per_node
    work = (best.time.compute + best.time.ep_comm) * best.job.gpus
    while (gpus := next(smaller_counts(gpus, node), 0)) and work / gpus <= best.step * AS_WELL:
        steps = [_fastest(scan) for scan in _scans(request, gpus)]
        if min(steps) > best.step * AS_WELL:
            break
        found = Fewer(gpus, min(steps))
    return found


def _scans(request: SearchRequest, gpus: int) -> Iterator[Scan]:
    for job, runtime in replace(request, gpu_counts=(gpus,)).jobs():
        yield scan_of(replace(request, uniform=True), job, runtime, keep=1)


def _usable(scan: Scan) -> bool:
    """Whether some plan of a scan obeys all rules."""
    legality = Legality(scan.space.rows, scan.job, scan.runtime, scan.choices, scan.shards)
    removed: Counter[str] = Counter()
    return any(legality.rows_of(names, removed).rows.size for names in scan.choices.passes())


def _fastest(scan: Scan) -> float:
    """Return the seconds of the fastest safe plan of a scan; infinite where there is none. [s]"""
    best = scan.run(objective_column("time")).best
    return best[0].value if best else float(np.inf)
