"""Where nothing fits: the same search with weights off the device, or with a runtime of longer sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.dataclasses import replace
from planner.runtimes import runtimes
from planner.search.choices import searched_beside
from planner.search.request import SearchRequest
from planner.techniques.offload import OFFLOADS


def requests_beyond(request: SearchRequest) -> Iterator[SearchRequest]:
    """Yield the request with each offload that is searched only where nothing fits, the fastest first.

    Weights in host memory come before any disk. Nothing is yielded where the user says the offload.
    """
    if request.fixed.get("offload") is not None:
        return
    method = request.workload.method
    entries = [entry for entry in OFFLOADS.values() if not searched_beside(entry, method)]
    for entry in sorted(entries, key=lambda entry: (entry.disk, entry.weights == "disk", entry.optimizer)):
        name = entry.name
        having = tuple(runtime for runtime in request.runtimes if name in runtime.offloads)
        if having:
            yield replace(request, runtimes=having, fixed={**request.fixed, "offload": name})


TILES: Final = "mlp_tiles"
"""Setting of the runtimes whose feed-forwards run in parts of a sequence."""


def with_tiles(request: SearchRequest) -> SearchRequest | None:
    """Return the request with the runtimes that hold longer sequences (`TILES`); None where it has them.

    Sequences are long where the model has fewer positions.
    """
    if request.workload.seq_len <= (request.model.max_positions or float("inf")):
        return None
    asked = {one.name for one in request.runtimes}
    others = [one for name, one in runtimes().items() if TILES in one.searched and name not in asked]
    return replace(request, runtimes=tuple(others)) if others else None
