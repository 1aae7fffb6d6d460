"""How layers are split over the stages of a pipeline where a plan names no split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from planner.inputs.model import ModelSpec
from planner.plan import even_split


@lru_cache(maxsize=4096)
def weighted_split(
    weights: tuple[float, ...], parts: int, last: float, first: float = 0.0
) -> tuple[int, ...]:
    """Contiguous split that makes the heaviest part lightest; ``first`` and ``last`` are added to the ends.

    Every part gets at least one layer, where there are as many. Bisection over the heaviest part by greedy
    fills; then, if that is as light, the split that also keeps the other parts even.
    """
    if parts >= len(weights):
        return even_split(len(weights), parts)
    ends = (first, last)
    low, high = max(weights), sum(weights) + first + last
    best = even_split(len(weights), parts)
    for _ in range(40):
        guess = (low + high) / 2
        split = _fill(weights, parts, ends, guess, evenly=False)
        if split is None:
            low = guess
        else:
            best, high = split, guess
    return _fill(weights, parts, ends, high, evenly=True) or best


def _fill(
    weights: Sequence[float], parts: int, ends: tuple[float, float], limit: float, evenly: bool
) -> tuple[int, ...] | None:
    """Fill parts from the end up to ``limit``, or only to the mean of what is left; None if that fails."""
    split: list[int] = []
    first, last = ends
    left, rest = len(weights), sum(weights) + first + last
    for part in range(parts - 1, -1, -1):
        load = (last if part == parts - 1 else 0.0) + (first if part == 0 else 0.0)
        wanted = max(rest / (part + 1), rest - part * limit) if evenly else limit
        taken = 0
        while left > part and (taken == 0 or part == 0 or _takes(load, weights[left - 1], wanted, limit)):
            load += weights[left - 1]
            left -= 1
            taken += 1
        if load > limit * (1 + 1e-12):
            return None
        rest -= load
        split.append(taken)
    return tuple(reversed(split)) if left == 0 else None


def _takes(load: float, weight: float, wanted: float, limit: float) -> bool:
    """Whether a part with ``load`` takes one more layer: towards what is wanted, within the limit."""
    return load + weight <= limit and load + weight / 2 <= wanted


def default_split(model: ModelSpec, parts: int, weights: Mapping[str, float]) -> tuple[int, ...]:
    """Layers of each virtual stage where the plan names none.

    Equal layers are split evenly; unlike ones by ``weights`` of a layer of each kind, ``head`` among them.
    """
    if len(set(model.layers)) == 1:
        return even_split(model.num_layers, parts)
    return weighted_split(tuple(weights[name] for name in model.layers), parts, weights["head"])
