"""Where nothing fits: the same search with weights off the device, which no search tries otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from planner.search.request import SearchRequest
from planner.techniques.offload import OFFLOADS


def requests_beyond(request: SearchRequest) -> Iterator[SearchRequest]:
    """Yield the request with each offload that is searched only where nothing fits, the fastest first.

    Weights in host memory come before any disk. Nothing is yielded where the user says the offload.
    """
    if request.fixed.get("offload") is not None:
        return
    names = [name for name, entry in OFFLOADS.items() if not entry.searched]
    for name in sorted(names, key=lambda name: (OFFLOADS[name].disk, OFFLOADS[name].weights == "disk")):
        having = tuple(runtime for runtime in request.runtimes if name in runtime.offloads)
        if having:
            yield replace(request, runtimes=having, fixed={**request.fixed, "offload": name})
