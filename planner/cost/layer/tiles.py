"""Operators that run tile by tile over the tokens of a rank, and once more forward in their own backward."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.layer.operators import Operator, Pricer
from planner.dataclasses import replace
from planner.numeric import Num, maximum

TIMES = ("forward", "backward", "flops", "weight_gradient", "outside_forward", "outside_backward")
"""Fields of an operator that all tiles add to."""


def tile_of(pricer: Pricer, tiles: float) -> Pricer:
    """Return what prices one of so many tiles of a rank's tokens."""
    return Pricer(pricer.case, replace(pricer.plan, micro_batch=pricer.plan.micro_batch / tiles))


def in_tiles(tile: Operator, tiles: float) -> Operator:
    """Return an operator over all tiles from that of one: each adds to the weights' gradients by itself."""
    return tile.with_values(reruns=1.0, **{name: tiles * getattr(tile, name) for name in TIMES})


def tiled_layer(pricer: Pricer, tiles: float, parts: Sequence[Operator]) -> list[Operator]:
    """Return the operators of a feed-forward over all tiles, from those of one tile.

    Nothing but its input waits for backward, which the norm before it keeps. There a tile's forward runs
    again: what it leaves and the gradient of its widest result are there for one tile, the gradients of the
    layer's result and of its input for all.

    References
    ----------
    .. [1] S. Bekman et al., "Arctic Long Sequence Training," arXiv:2506.13996, 2025, sec. 3.1.
    .. [2] DeepSpeed, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``, ``TiledMLP``: forward without a
       graph, in backward ``x_grad`` of the whole sequence, forward of a tile again, then its backward; under
       recompute of layers its forward runs three times.
    """
    inside: Num = 0.0
    widest: Num = 0.0
    for part in parts:
        inside = inside + part.kept + part.saved
        widest = maximum(widest, part.result)
    whole = 2.0 * pricer.tokens * pricer.case.model.hidden
    *others, last = (in_tiles(part, tiles).with_values(kept=0.0, saved=0.0, result=0.0) for part in parts)
    return [*others, last.with_values(result=2.0 * whole + inside + widest)]
