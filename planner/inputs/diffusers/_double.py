"""Blocks of two streams with weights of their own around one attention, and of one stream after them."""

from __future__ import annotations

from planner.inputs.diffusers.family import (
    Parts,
    core,
    feed_forward,
    gated,
    modulated,
    pointwise,
    product,
    queries_and_keys,
)

STREAMS = ("latents", "text")


def double_block(heads: tuple[int, int], inner: int, normed: bool, turned: bool) -> Parts:
    """Return a block of two streams: six modulations each, joint attention, two feed-forwards."""
    hidden = heads[0] * heads[1]
    parts: Parts = []
    for rows in STREAMS:
        parts += [product("sample", hidden, 6 * hidden), *entered(rows, heads, normed, turned)]
    parts += [core("all", "all", heads)]
    for rows in STREAMS:
        parts += left(rows, hidden, inner)
    return parts


def entered(rows: str, heads: tuple[int, int], normed: bool, turned: bool) -> Parts:
    """Return what makes queries, keys and values of a stream."""
    hidden, size = heads[0] * heads[1], 2 * heads[1] * normed
    made = [*modulated(rows, hidden), product(rows, hidden, 3 * hidden)]
    return made + queries_and_keys(rows, hidden, size, turned)


def left(rows: str, hidden: int, inner: int) -> Parts:
    """Return what follows attention in a stream, whose part of its result is copied."""
    parts = [product(rows, hidden, hidden), *gated(rows, hidden)]
    return [*parts, *modulated(rows, hidden), *feed_forward(rows, hidden, inner), *gated(rows, hidden)]


def single_block(heads: tuple[int, int], inner: int) -> Parts:
    """Return a block of one stream whose attention and feed-forward stand side by side."""
    hidden = heads[0] * heads[1]
    return [
        product("sample", hidden, 3 * hidden),
        *entered("all", heads, True, True),
        product("all", hidden, inner, keeps=False),
        pointwise("activation", "all", inner),
        core("all", "all", heads),
        product("all", hidden + inner, hidden),
        *gated("all", hidden),
    ]
