"""Predicted against measured seconds per step as a picture: plain SVG, made by hand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from planner.calibrate.validate import Outcome

SIDE: Final = 520.0
LEFT: Final = 64.0
RIGHT: Final = 32.0
TOP: Final = 16.0
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""The colours of Okabe and Ito, which colour-blind readers can tell apart."""
NEAR: Final = 0.1
"""Share on either side of the diagonal between the dashed lines. [-]"""


def scatter(outcomes: Iterable[Outcome]) -> str:
    """Return the picture of all timed rows, a colour for each runtime, both axes logarithmic."""
    points: dict[str, list[tuple[float, float]]] = {}
    for outcome in outcomes:
        measured, predicted = outcome.scored.measured_s, outcome.scored.predicted_s
        if measured and predicted:
            points.setdefault(outcome.runtime, []).append((math.log10(measured), math.log10(predicted)))
    return picture("Predicted against measured seconds per step", points)


def picture(title: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return pairs of measured and predicted logarithms to base 10 as a picture, a colour for each name."""
    every = [value for members in points.values() for pair in members for value in pair] or [0.0, 1.0]
    low, high = math.floor(min(every)), max(math.ceil(max(every)), math.floor(min(every)) + 1)
    names = sorted(points, key=lambda name: (-len(points[name]), name))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE + LEFT + RIGHT:g} {SIDE + TOP + 56:g}" '
        'font-family="sans-serif" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{SIDE + LEFT + RIGHT:g}" height="{SIDE + TOP + 56:g}" fill="white"/>',
        *_axes(low, high),
    ]
    for place, name in enumerate(names):
        parts += _series(points[name], COLOURS[place % len(COLOURS)], low, high)
        parts += _legend(place, f"{name} ({len(points[name])})", COLOURS[place % len(COLOURS)])
    return "\n".join([*parts, "</svg>", ""])


def _place(x: float, y: float, low: int, high: int) -> tuple[float, float]:
    scale = SIDE / (high - low)
    return LEFT + (x - low) * scale, TOP + SIDE - (y - low) * scale


def _axes(low: int, high: int) -> list[str]:
    parts = []
    for power in range(low, high + 1):
        x, y = _place(power, power, low, high)
        text = f"{10.0**power:g}"
        parts += [
            f'<path d="M{x:.1f},{TOP:g}V{TOP + SIDE:g}M{LEFT:g},{y:.1f}H{LEFT + SIDE:g}" stroke="#ddd"/>',
            f'<text x="{x:.1f}" y="{TOP + SIDE + 18:g}" text-anchor="middle">{text}</text>',
            f'<text x="{LEFT - 6:g}" y="{y + 4:.1f}" text-anchor="end">{text}</text>',
        ]
    for share, style in ((0.0, ""), (NEAR, ' stroke-dasharray="4"'), (-NEAR, ' stroke-dasharray="4"')):
        shift = math.log10(1 + share)
        first = _place(low + max(0.0, -shift), low + max(0.0, shift), low, high)
        last = _place(high - max(0.0, shift), high - max(0.0, -shift), low, high)
        parts.append(
            f'<path d="M{first[0]:.1f},{first[1]:.1f}L{last[0]:.1f},{last[1]:.1f}" stroke="#888"{style}/>'
        )
    middle, below = TOP + SIDE / 2, TOP + SIDE + 40
    return [
        *parts,
        f'<text x="{LEFT + SIDE / 2:g}" y="{below:g}" text-anchor="middle">measured seconds per step</text>',
        f'<text transform="translate(16,{middle:g}) rotate(-90)" text-anchor="middle">predicted</text>',
    ]


def _series(points: Sequence[tuple[float, float]], colour: str, low: int, high: int) -> list[str]:
    """Return the dots of a runtime as one path of round caps: a dot is a line of no length."""
    places = sorted({tuple(round(value, 1) for value in _place(*point, low, high)) for point in points})
    dots = "".join(f"M{x:g},{y:g}h0" for x, y in places)
    return [
        f'<path d="{dots}" stroke="{colour}" stroke-width="4" stroke-linecap="round" stroke-opacity="0.5"/>'
    ]


def _legend(place: int, text: str, colour: str) -> list[str]:
    y = TOP + 20 + 18 * place
    return [
        f'<path d="M{LEFT + 14:g},{y - 4:g}h0" stroke="{colour}" stroke-width="9" stroke-linecap="round"/>',
        f'<text x="{LEFT + 24:g}" y="{y:g}">{text}</text>',
    ]
