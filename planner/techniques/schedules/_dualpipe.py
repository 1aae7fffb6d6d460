"""The order that DualPipe and DualPipeV share."""

from __future__ import annotations

from collections import deque

from planner.techniques.schedules._orders import OrderScript
from planner.techniques.schedules.family import Pass


def dual_passes(place: int, places: int, first: int, second: int, microbatches: int) -> tuple[Pass, ...]:
    """Write one rank's passes over two chunks, a forward of one beside a backward of the other.

    ``place`` and ``places``: place of the rank in its half of the pipeline, and places there; ``first`` and
    ``second``: the chunk whose micro-batches come first, and the other; ``microbatches``: micro-batches
    through each chunk, at least twice the places.
    """
    script, chunks = OrderScript(microbatches), (first, second)
    waiting: deque[int] = deque()
    for step in _steps(place, places, microbatches):
        if step == "W":
            script.run("W", waiting.popleft(), 1)
            continue
        chunk = chunks[int(step[1])]
        if step[0] == "F":
            script.run("F", chunk)
        elif step[0] == "X":
            script.run("BW", chunk)
        else:
            script.run("B", chunk)
            waiting.append(chunk)
    return script.passes()


def _steps(place: int, places: int, microbatches: int) -> list[str]:
    """Write the passes with chunk 0 or 1; X is a whole backward, W takes the oldest gradient that waits."""
    left, steady = places - 1 - place, microbatches - 2 * places + place + 1
    turns = [("X" if turn <= place else "B") + "10"[turn % 2] for turn in range(2 * (place + 1))]
    return [
        *["F0"] * (2 * left),
        *["F0", "F1"] * (place + 1),
        *["B1", "W", "F1"] * left,
        *["F0", "X1", "F1", "X0"] * steady,
        *["X1", "F1", "X0"] * left,
        *turns,
        *["W", "B0"] * left,
        *["W"] * (place + 1),
    ]
