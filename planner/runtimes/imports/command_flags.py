"""Flags of a command with their values, as argparse takes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_LOOSE: Final = re.compile(r"\$\{?[A-Za-z_]\w*(?:\[@\])?\}?")
_NUMBER: Final = re.compile(r"-(?:\d|\.\d)")


def flag_values(words: Iterable[str]) -> dict[str, str]:
    """Return flags with their values; of a repeated flag the last counts, as for argparse.

    Examples
    --------
    >>> flag_values(["--tp", "8", "--bf16", "--lr=1e-4", "--window", "-1", "0"])
    {'--tp': '8', '--bf16': '', '--lr': '1e-4', '--window': '-1 0'}
    """
    flags: dict[str, str] = {}
    last = ""
    for word in words:
        if word.startswith("-") and not _NUMBER.match(word):
            last, equals, value = word.partition("=")
            flags.pop(last, None)
            flags[last] = value
            last = "" if equals else last
        elif last and flags[last] and _LOOSE.fullmatch(word):
            continue  # arguments that nobody has set: nothing, in a shell
        elif last:
            flags[last] = f"{flags[last]} {word}".strip()
        else:
            flags[word] = ""
    return flags


def overridden(words: Iterable[str]) -> list[tuple[str, str]]:
    """Return flags with values that a later one of the same name replaces: a parser checks these too.

    Examples
    --------
    >>> overridden(["train.py", "--kind", "a", "--size=1", "--kind", "b"])
    [('--kind', 'a')]
    """
    said: list[list[str]] = []
    for word in words:
        if word.startswith("--"):
            said.append([word])
        elif said:
            said[-1].append(word)
    pairs = [pair for one in said for pair in flag_values(one).items()]
    last = {key: place for place, (key, _) in enumerate(pairs)}
    return [pair for place, pair in enumerate(pairs) if last[pair[0]] != place]
