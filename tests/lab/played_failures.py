"""Jobs whose failures come at random, played out: what closed forms are held to."""

from __future__ import annotations

import numpy as np


def played_levels(
    near: tuple[float, float, float],
    far: tuple[float, float, float],
    mtbf: float,
    cured: float,
    rounds: int = 12_000,
    seed: int = 1,
) -> tuple[float, float]:
    """Return time over training, and the share in restarts, of a job with failures of two kinds."""
    draw = np.random.default_rng(seed)
    clock = waited = 0.0
    fails = [draw.exponential(mtbf / cured), draw.exponential(mtbf / (1 - cured))]
    means = (mtbf / cured, mtbf / (1 - cured))

    def spend(seconds: float) -> int | None:
        """Let time pass, at most until a failure; return its kind."""
        nonlocal clock
        kind = int(fails[1] < fails[0])
        if clock + seconds < fails[kind]:
            clock += seconds
            return None
        clock = fails[kind]
        fails[kind] = clock + draw.exponential(means[kind])
        return kind

    def work(seconds: float, back: float) -> int | None:
        """Do one piece under near failures; return 1 where storage is needed."""
        restart = 0.0
        while (kind := spend(restart + seconds)) == 0:
            restart = back
        return kind

    per = round(far[0] / near[0])
    for _ in range(rounds):
        restart = 0.0
        while True:
            begun = clock
            hit = spend(restart) if restart else None
            waited += clock - begun
            if hit is not None:
                restart = far[2]
                continue
            pieces = [work(near[0] + near[1], near[2])]
            done = 1
            while not pieces[-1] and done < per:
                pieces.append(work(near[0] + near[1], near[2]))
                done += 1
            if pieces[-1] or work(far[1], near[2]):
                restart = far[2]
                continue
            break
    return clock / (rounds * far[0]), waited / clock
