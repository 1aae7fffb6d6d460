"""One pipeline over sites played micro-batch by micro-batch: stages, and links that carry one at a time."""

from __future__ import annotations

import heapq

from planner.cost.sites.price import ACTIVATION, Trained, Way
from planner.cost.sites.routes import chain_route
from planner.formulas.low_communication import boundary_bytes
from planner.techniques.sync.family import BACKWARD, FORWARD


def play_stages(way: Way, trained: Trained) -> float:
    """Return the time of a step of a pipeline whose stages are the sites, layers by their speed.

    Every micro-batch goes forward through all stages and back. A stage takes a backward pass before a forward
    one; a link carries each direction in the order in which passes end.
    """
    sites, route = trained.profile.sites, chain_route(trained.profile)
    beats = trained.micro_batches * trained.replicas
    rates = sum(one.replicas / trained.seconds[one.name] for one in sites)
    work = way.sync.work * trained.replicas / rates / beats
    size = min(ACTIVATION, way.packed.sent_bytes)
    nbytes = float(boundary_bytes(trained.tokens, float(trained.model.hidden), size)) / beats
    occupied = max(hop.share * nbytes / hop.rate for hop in route.hops)
    return _played(paths(len(sites), beats, way.sync.work), work, occupied, route.latency)


def paths(stages: int, beats: int, share: float) -> list[tuple[int, ...]]:
    """Return the stages that each micro-batch visits: the first, and of the others in turn its share.

    A stage that fewer visit has fewer accelerators, so that all take as long for what comes to them.
    """
    visited = max(1, round(share * stages))
    others = [number % max(1, stages - 1) for number in range(beats)]
    return [
        tuple(sorted({0, *(1 + (first + turn) % (stages - 1) for turn in range(visited - 1))}))
        for first in others
    ]


def _played(ways: list[tuple[int, ...]], work: float, occupied: float, latency: float) -> float:
    """Play all passes; a turn is a stage in one direction, and the last stage's two follow one another."""
    stages, beats = 1 + max(map(max, ways)), len(ways)
    visits = [sum(stage in way for way in ways) / beats for stage in range(stages)]
    waiting: list[list[tuple[int, int, int]]] = [[] for _ in range(stages)]
    free, links = [0.0] * stages, dict[tuple[int, int], float]()
    events: list[tuple[float, int, int]] = [(0.0, beat, 0) for beat in range(beats)]
    heapq.heapify(events)
    now = 0.0
    while events:
        now = events[0][0]
        while events and events[0][0] <= now:
            _, beat, turn = heapq.heappop(events)
            if turn >= 0:
                places = (*ways[beat], *reversed(ways[beat]))
                heapq.heappush(waiting[places[turn]], (turn - len(places), beat, turn))
        for stage in range(stages):
            if free[stage] <= now and waiting[stage]:
                _, beat, turn = heapq.heappop(waiting[stage])
                places = (*ways[beat], *reversed(ways[beat]))
                part = FORWARD if turn < len(ways[beat]) else BACKWARD
                end = free[stage] = now + part * work / visits[stage]
                heapq.heappush(events, (end, beat, -1))
                if turn + 1 < len(places):
                    other = places[turn + 1]
                    if other != stage:
                        links[stage, other] = max(links.get((stage, other), 0.0), end) + occupied
                    arrives = links[stage, other] + latency if other != stage else end
                    heapq.heappush(events, (arrives, beat, turn + 1))
    return max(now, *free)
