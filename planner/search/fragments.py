"""Whether jobs that share a cluster find whole nodes and scale-up domains, and what has to move for that."""

from __future__ import annotations

from collections.abc import Iterable

from planner.search.shares import LayerRun


def pieces(runs: Iterable[LayerRun]) -> list[LayerRun]:
    """Return the runs with one share each: a run whose share changes is one for each of its shares."""
    found: list[LayerRun] = []
    for run in runs:
        own: list[LayerRun] = []
        for spell in run.spells:
            if own and own[-1].gpus == spell.gpus and own[-1].end == spell.start:
                own[-1] = LayerRun(run.task, spell.gpus, own[-1].start, spell.end)
            else:
                own.append(LayerRun(run.task, spell.gpus, spell.start, spell.end))
        found += own or [run]
    return found


def _events(runs: list[LayerRun]) -> list[tuple[float, int, int]]:
    """Return time, whether it starts, and number of each run, ends before starts."""
    return sorted(
        [(run.end, 0, number) for number, run in enumerate(runs)]
        + [(run.start, 1, number) for number, run in enumerate(runs)]
    )


def crossings(runs: Iterable[LayerRun], gpus: int, domain: int) -> int:
    """Return how many jobs cross a scale-up domain although they would fit into one. [-]

    A job goes where it leaves least free; nothing moves.

    Parameters
    ----------
    runs : iterable of LayerRun
        Jobs with one share each.
    gpus, domain : int
        Accelerators, and those of a scale-up domain. [-]
    """
    known = list(runs)
    free = [domain] * (gpus // domain) + ([gpus % domain] if gpus % domain else [])
    places: dict[int, list[tuple[int, int]]] = {}
    crossed = 0
    for _, starts, number in _events(known):
        if not starts:
            for place, count in places.pop(number):
                free[place] += count
            continue
        wanted = known[number].gpus
        fitting = [(left, place) for place, left in enumerate(free) if left >= wanted]
        crossed += not fitting and wanted <= domain
        own = places.setdefault(number, [])
        for _, place in (
            [min(fitting)] if fitting else sorted((-left, place) for place, left in enumerate(free))
        ):
            count = min(wanted, free[place])
            if count:
                own.append((place, count))
                free[place] -= count
                wanted -= count
    return crossed


def small_moves(runs: Iterable[LayerRun], gpus: int, per_node: int) -> int:
    """Return how often a job of less than a node must move so that others find whole nodes. [-]

    Shares of part of a node go where they leave least free; of whole nodes, to any. Parts that halve a node
    always fit together once they are packed.
    """
    free = [per_node] * (gpus // per_node)
    places: dict[int, tuple[int, int]] = {}
    known, moves = list(runs), 0
    for _, starts, number in _events(known):
        run = known[number]
        if run.gpus >= per_node:
            whole = -(-run.gpus // per_node)
            if not starts:
                for node in [node for node, left in enumerate(free) if left == -1 - number]:
                    free[node] = per_node
                continue
            if sum(left == per_node for left in free) < whole:
                moves += _packed(free, places, per_node)
            for node in [node for node, left in enumerate(free) if left == per_node][:whole]:
                free[node] = -1 - number
        elif starts:
            if not any(left >= run.gpus for left in free):
                moves += _packed(free, places, per_node)
            _placed(free, places, number, run.gpus)
        elif number in places:
            node, count = places.pop(number)
            free[node] += count
    return moves


def _placed(free: list[int], places: dict[int, tuple[int, int]], number: int, gpus: int) -> None:
    """Place part of a node where it leaves least free; one that finds no room spans two (see `crossings`)."""
    room = [(left, node) for node, left in enumerate(free) if left >= gpus]
    if room:
        node = min(room)[1]
        free[node] -= gpus
        places[number] = (node, gpus)


def _packed(free: list[int], places: dict[int, tuple[int, int]], per_node: int) -> int:
    """Pack the parts of nodes together, largest first, and return how many of them moved."""
    moved = 0
    for number in sorted(places, key=lambda one: -places[one][1]):
        node, count = places[number]
        used = [
            (left, other) for other, left in enumerate(free) if count <= left < per_node and other != node
        ]
        better = min(used, default=None)
        if better is not None and better[0] < free[node] + count:
            free[node] += count
            free[better[1]] -= count
            places[number] = (better[1], count)
            moved += 1
    return moved
