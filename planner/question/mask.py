"""A mask of attention as the command line says it."""

from __future__ import annotations

import re
from typing import Final

from planner.cost.layer.mask_balance import Mask
from planner.errors import InputError, Problem, nearest
from planner.question.reading import BINARY

_TOKENS: Final = re.compile(r"(\d{1,12})([kKmM]?)i?")

EXAMPLE: Final = "columns:1K+window:4K+slash:64K:1K"

_SIZES: Final = {
    "causal": (0, 0),
    "columns": (1, 1),
    "window": (1, 1),
    "slash": (2, 2),
    "documents": (1, 10_000),
}
"""Parts of a mask, each with the fewest and the most numbers that it takes."""

_WANTED: Final = {
    "causal": "causal alone",
    "columns": "columns:N, the first keys that all queries see",
    "window": "window:N, the last keys that each query sees",
    "slash": "slash:DISTANCE:WIDTH, a band of keys at a distance",
    "documents": "documents:N:N:..., lengths that repeat until the sequence is full",
}


def read_mask(text: str, where: str = "--mask") -> Mask:
    """Read parts joined by a plus.

    Raises
    ------
    InputError
        If a part is unknown, or has other numbers than it takes: all faults at once.

    Examples
    --------
    >>> read_mask("columns:1K+window:4K+slash:64K:1K")
    Mask(columns=1024, window=4096, slashes=((65536, 1024),), documents=())
    """
    problems: list[Problem] = []
    found: dict[str, list[tuple[int, ...]]] = {}
    for part in text.strip().lower().split("+"):
        word, *numbers = part.strip().split(":")
        if word not in _SIZES:
            near = nearest(word, _SIZES)
            problems.append(
                Problem(where, repr(word[:60]), f"one of {', '.join(_SIZES)}, as in {EXAMPLE}", near)
            )
            continue
        sizes = tuple(_tokens(number) for number in numbers)
        least, most = _SIZES[word]
        again = word in found and word != "slash"
        if not least <= len(sizes) <= most or 0 in sizes[word == "slash" :] or -1 in sizes or again:
            problems.append(
                Problem(where, repr(part[:60]), _WANTED[word] + (", once" if again else ""), EXAMPLE)
            )
            continue
        found.setdefault(word, []).append(sizes)
    if problems:
        raise InputError(problems)
    single = {word: found[word][0][0] for word in ("columns", "window") if word in found}
    slashes = tuple((far, width) for far, width in found.get("slash", []))
    return Mask(**single, slashes=slashes, documents=found.get("documents", [()])[0])


def _tokens(text: str) -> int:
    """Return a number of tokens, -1 for what is none."""
    match = _TOKENS.fullmatch(text.strip())
    return int(match[1]) * (BINARY[match[2].lower()] if match[2] else 1) if match else -1
