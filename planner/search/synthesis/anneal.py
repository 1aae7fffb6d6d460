"""Local improvement: passes on the critical path of an order change places, by simulated annealing."""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from typing import Final

from planner.search.synthesis.problem import CLOSE, SLACK, OrderProblem, Words, keeps_limit, play

WORK: Final = 5_000_000
"""Passes played in one walk, so that the answer does not depend on the machine where time suffices."""

HEATS: Final = (0.3, 1.0, 0.5)
"""First temperature of each walk, over the shortest pass; each starts from the best order had."""

MOST_MOVES: Final = 100
"""Moves of a walk for each pass of the step; more find nothing new in small cases."""

FEWEST_MOVES: Final = 1000
"""Fewer moves than this lead nowhere in a step so large that no more are played."""

MOST_TRIES: Final = 20
"""Tries for each move: most are refused unplayed, as they hold too much or change nothing."""

FARTHEST: Final = 8
"""Places that a pass moves at most."""


def anneal(problem: OrderProblem, words: Words, bound: float, deadline: float, seed: int = 0) -> Words:
    """Return the best order found.

    Parameters
    ----------
    problem : OrderProblem
        Pipeline, limits and objective.
    words : list of list of int
        The order to start from, within the limits.
    bound : float
        Value at which nothing more can be had. [s]
    deadline : float
        When to stop, on `time.perf_counter`. [s]
    seed : int
        Seed of the moves.
    """
    possible = WORK // problem.passes
    moves = min(possible, MOST_MOVES * problem.passes)
    for turn, heat in enumerate(HEATS if possible >= FEWEST_MOVES else ()):
        walk = _Walk(problem, words, heat, len(HEATS) * seed + turn)
        while walk.moves < moves and walk.tries < MOST_TRIES * moves:
            if walk.best[1] <= bound * (1.0 + CLOSE) or time.perf_counter() > deadline:
                return walk.best[0]
            walk.step(1.0 - walk.moves / moves)
        words = walk.best[0]
    return words


class _Walk:
    """An order on its way, and the best seen."""

    def __init__(self, problem: OrderProblem, words: Words, heat: float, seed: int) -> None:
        played = play(problem, words)
        if played is None:
            raise ValueError("an order to start from must run")
        self.problem, self.random = problem, random.Random(seed)
        self.words, self.played = [list(word) for word in words], played
        self.best = ([list(word) for word in words], played.value)
        self.heat = heat * min((span for span in problem.spans if span > 0), default=0.0)
        self.joints: list[tuple[int, int]] = []
        self.moves = self.tries = 0

    def step(self, temperature: float) -> None:
        """Try one move of a pass on the critical path."""
        self.tries += 1
        if not self.joints:
            self.joints = self._joints()
        if not self.joints:
            return
        rank, place = self.random.choice(self.joints)
        before, after = self.words[rank], self._moved(rank, place)
        if after == before or not keeps_limit(self.problem, rank, after):
            return
        self.words[rank] = after
        self.moves += 1
        played = play(self.problem, self.words)
        if played is None or not self._accepts(played.value, temperature):
            self.words[rank] = before
            return
        self.played, self.joints = played, []
        if played.value < self.best[1] * (1.0 - SLACK):
            self.best = ([list(word) for word in self.words], played.value)

    def _accepts(self, value: float, temperature: float) -> bool:
        worse = value - self.played.value
        if worse <= SLACK * value:
            return True
        heat = self.heat * temperature
        return heat > 0 and self.random.random() < math.exp(-worse / heat)

    def _moved(self, rank: int, place: int) -> list[int]:
        """Return a rank's order with two neighbours exchanged, or one of them moved away."""
        word, way = list(self.words[rank]), self.random.random()
        if way < 0.5:
            word[place - 1], word[place] = word[place], word[place - 1]
        elif way < 0.75:
            word.insert(max(0, place - self.random.randint(2, FARTHEST)), word.pop(place))
        else:
            code = word.pop(place - 1)
            word.insert(place - 1 + self.random.randint(2, FARTHEST), code)
        return word

    def _joints(self) -> list[tuple[int, int]]:
        """Return places (rank, place) on a critical path where a pass starts when the one before it ends."""
        rank, place = self._last()
        numbers, places = self._labels()
        joints: list[tuple[int, int]] = []
        while place >= 0:
            source = self._source(rank, place, numbers[rank][place], places)
            if self._joined(rank, place) and (source is None or self.random.random() < 0.5):
                joints.append((rank, place))
                place -= 1
            elif source is not None:
                rank, place = source
            else:
                break
        return joints

    def _last(self) -> tuple[int, int]:
        """Return one of the passes that end the step, by its rank and place."""
        ends = [end - offset for end, offset in zip(self.played.ends, self.problem.offsets, strict=True)]
        worst = self.played.value * (1.0 - SLACK)
        rank = self.random.choice([rank for rank, end in enumerate(ends) if end >= worst])
        return rank, len(self.words[rank]) - 1

    def _labels(self) -> tuple[list[list[int]], list[list[int]]]:
        """Return micro-batches by rank and place, and places by code and micro-batch."""
        taken: Counter[int] = Counter()
        numbers: list[list[int]] = [[] for _ in self.words]
        places: list[list[int]] = [[] for _ in self.problem.spans]
        for rank, word in enumerate(self.words):
            for place, code in enumerate(word):
                numbers[rank].append(taken[code])
                places[code].append(place)
                taken[code] += 1
        return numbers, places

    def _joined(self, rank: int, place: int) -> bool:
        """Say whether a pass starts when the one before it on its rank ends."""
        if not place:
            return False
        end = self.played.starts[rank][place - 1] + self.problem.spans[self.words[rank][place - 1]]
        return end >= self.played.starts[rank][place] * (1.0 - SLACK)

    def _source(
        self, rank: int, place: int, microbatch: int, places: list[list[int]]
    ) -> tuple[int, int] | None:
        """Return rank and place of the pass whose message lets a pass start; None where it came before."""
        code = self.words[rank][place]
        source = self.problem.sources[code]
        if source < 0:
            return None
        other = self.problem.ranks[source // 3]
        spot = places[source][microbatch]
        arrival = self.played.starts[other][spot] + self.problem.spans[source]
        arrival += self.problem.targets[source][1]
        return (other, spot) if arrival >= self.played.starts[rank][place] * (1.0 - SLACK) else None
