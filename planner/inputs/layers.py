"""The order of a model's layers as people write it: ``3 dense, 58 moe`` or ``10 x (5 sliding, 1 full)``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Annotated, Final

from pydantic import AfterValidator

from planner.errors import nearest
from planner.units import is_whole

MAX_LAYERS: Final = 10_000
NAME: Final = r"(?!x(?![\w-]))[A-Za-z][\w-]*"
"""Pattern of a block's name; ``x`` alone is the sign of repeats."""

PIECES: Final = ("embedding", "head", "tied_head", "prediction", "encoder")
"""What a model has beside its layers, by the names under which it is priced; no block is named so."""

_TOKEN = re.compile(r"\s*(?:(\d+)(?:\s*x(?![\w-])|(?![\w-]))|(" + NAME + r")|([(),]))")


def _block_name(text: str) -> str:
    if not re.fullmatch(NAME, text):
        raise ValueError("a name of letters, digits, - and _ that begins with a letter, and is not x")
    if text in PIECES:
        raise ValueError(f"another name than {text}, which a part beside the layers has")
    return text


BlockName = Annotated[str, AfterValidator(_block_name)]


def layer_faults(layers: Sequence[str], predicted: str, blocks: Collection[str]) -> list[str]:
    """Return what is wrong with the names of ``blocks`` that layers have; nothing where all agree.

    ``predicted`` is the block of extra prediction layers, empty where there are none.
    """
    named = {*layers, predicted or layers[0]}
    known = ", ".join(blocks)
    faults = [
        f"layers of the blocks {known}, not {name} (nearest: {nearest(name, blocks)})"
        for name in sorted(named - set(blocks))
    ]
    return faults + [f"block {name} in layers, or no such block" for name in blocks if name not in named]


def parse_layers(text: str) -> tuple[str, ...]:
    """Return the block of each layer, first to last.

    ``text``: parts joined by commas; a part is a block's name or a list in parentheses, either with a count.

    Raises
    ------
    ValueError
        If the text is no such list, or has more than `MAX_LAYERS` layers.

    Examples
    --------
    >>> parse_layers("2 x (2 sliding, 1 full), 1 sliding")
    ('sliding', 'sliding', 'full', 'sliding', 'sliding', 'full', 'sliding')
    """
    tokens = _tokens(text)
    layers, rest = _sequence(tokens, 0)
    if rest != len(tokens):
        raise ValueError(f"a comma before {tokens[rest]!r}")
    return tuple(layers)


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    place = 0
    while place < len(text.rstrip()):
        match = _TOKEN.match(text, place)
        if match is None or len(tokens) > MAX_LAYERS:
            raise ValueError(f"a list such as '3 dense, 58 moe', not {text[place : place + 20]!r}")
        tokens.append(next(group for group in match.groups() if group))
        place = match.end()
    return tokens


def _sequence(tokens: list[str], start: int, depth: int = 0) -> tuple[list[str], int]:
    layers: list[str] = []
    place = start
    while True:
        part, place = _part(tokens, place, depth)
        layers += part
        if len(layers) > MAX_LAYERS:
            raise ValueError(f"at most {MAX_LAYERS:,} layers")
        if place >= len(tokens) or tokens[place] != ",":
            return layers, place
        place += 1


def _part(tokens: list[str], place: int, depth: int) -> tuple[list[str], int]:
    count = 1
    if place < len(tokens) and is_whole(tokens[place]):
        count = int(tokens[place]) if len(tokens[place]) < 9 else MAX_LAYERS + 1
        place += 1
    if place >= len(tokens) or tokens[place] in "),":
        raise ValueError("a block's name after each count and comma")
    if tokens[place] == "(":
        if depth > 8:
            raise ValueError("fewer parentheses in parentheses")
        layers, place = _sequence(tokens, place + 1, depth + 1)
        if place >= len(tokens) or tokens[place] != ")":
            raise ValueError("a closing parenthesis")
    elif is_whole(tokens[place]):
        raise ValueError(f"a block's name after the count, not {tokens[place]}")
    else:
        layers = [tokens[place]]
    if not 0 < count * len(layers) <= MAX_LAYERS:
        raise ValueError(f"1 to {MAX_LAYERS:,} layers")
    return layers * count, place + 1


def layers_text(layers: Sequence[str]) -> str:
    """Return the shortest text of at most one repeated part that `parse_layers` reads as ``layers``.

    Examples
    --------
    >>> layers_text(["sliding", "full"] * 12)
    '12 x (1 sliding, 1 full)'
    """
    runs = [f"{len(list(run))} {name}" for name, run in groupby(layers)]
    texts = [
        _repeated_text(runs, start, period)
        for start in range(min(4, len(runs)))
        for period in range(2, min(8, len(runs) // 2) + 1)
    ]
    return min([", ".join(runs), *texts], key=len)


def _repeated_text(runs: list[str], start: int, period: int) -> str:
    """Text of ``runs`` where those from ``start`` on are folded into repeats of their first ``period``."""
    part = runs[start : start + period]
    end = start
    while runs[end : end + period] == part:
        end += period
    repeats = f"{(end - start) // period} x ({', '.join(part)})"
    return ", ".join([*runs[:start], repeats, *runs[end:]])
