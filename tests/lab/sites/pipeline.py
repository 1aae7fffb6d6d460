"""One pipeline over sites played micro-batch by micro-batch: stages, and links that carry one at a time."""

from __future__ import annotations

import heapq

from planner.cost.sites.price import ACTIVATION, Trained, Way
from planner.cost.sites.routes import chain_route
from planner.formulas.low_communication import boundary_bytes
from planner.techniques.sync._family import BACKWARD, FORWARD


def play_stages(way: Way, trained: Trained) -> float:
    """Return the time of a step of a pipeline whose stages are the sites, layers by their speed.

    Every micro-batch goes forward through all stages and back. A stage takes a backward pass before a forward
    one; a link carries each direction in the order in which passes end.
    """
    sites, route = trained.profile.sites, chain_route(trained.profile)
    beats = trained.micro_batches * trained.replicas
    rates = sum(one.replicas / trained.seconds[one.name] for one in sites)
    work = trained.replicas / rates / beats
    size = min(ACTIVATION, way.packed.sent_bytes)
    nbytes = float(boundary_bytes(trained.tokens, float(trained.model.hidden), size)) / beats
    occupied = max(hop.share * nbytes / hop.rate for hop in route.hops)
    return _played(len(sites), beats, work, occupied, route.latency)


def _played(stages: int, beats: int, work: float, occupied: float, latency: float) -> float:
    """Play all passes; a place is a stage in one direction, and the last stage's two follow one another."""
    places = [*range(stages), *reversed(range(stages))]
    spans = [FORWARD * work] * stages + [BACKWARD * work] * stages
    waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(stages)]
    free, links = [0.0] * stages, [0.0] * (2 * stages)
    events: list[tuple[float, int, int]] = [(0.0, beat, 0) for beat in range(beats)]
    heapq.heapify(events)
    now = 0.0
    while events:
        now = events[0][0]
        while events and events[0][0] <= now:
            _, beat, turn = heapq.heappop(events)
            if turn >= 0:
                heapq.heappush(waiting[places[turn]], (-turn, beat, turn))
        for stage in range(stages):
            if free[stage] <= now and waiting[stage]:
                _, beat, turn = heapq.heappop(waiting[stage])
                end = free[stage] = now + spans[turn]
                heapq.heappush(events, (end, beat, -1))
                if turn + 1 < len(places):
                    crosses = places[turn + 1] != stage
                    if crosses:
                        links[turn] = max(links[turn], end) + occupied
                    arrives = links[turn] + latency if crosses else end
                    heapq.heappush(events, (arrives, beat, turn + 1))
    return max(now, *free)
