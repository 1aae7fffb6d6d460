"""Texts that must stand wherever a regular expression matches: quicker to look for than the expression."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

ANY: Final = ("",)
"""What stands in every text: nothing is known."""

_TOKEN: Final = re.compile(
    r"\\(?P<escaped>.)|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<repeated>[?*]|\{[^}]*\})|(?P<plain>[^\\\[\](){}.^$|?*+])|.",
    re.DOTALL,
)
"""An escape, a class, what may leave out the character before, a plain character, the rest."""


def literals_of(says: str) -> tuple[str, ...]:
    r"""Return texts of which at least one stands in whatever an expression is found in.

    Each alternative gives the longest of its plain texts outside groups, classes and repeats. One without
    any, and flags, give the empty text, which stands everywhere.

    Examples
    --------
    >>> literals_of(r"\bfoo=1\b|ba[rz]+ (in|out)side?"), literals_of(r"\d+|fine")
    (('foo=1', 'sid'), ('',))
    """
    if re.search(r"\(\?[a-zA-Z-]", says):
        return ANY
    found = tuple(max(runs, key=len, default="") for runs in _alternatives(says))
    return found if all(found) else ANY


def _alternatives(says: str) -> Iterator[list[str]]:
    """Yield the plain texts of each alternative outside groups."""
    depth, run, runs = 0, "", list[str]()
    for token in _TOKEN.finditer(says):
        text = token[0]
        depth += (text == "(") - (text == ")")
        escaped = token["escaped"] or ""
        plain = token["plain"] or (escaped if not escaped.isalnum() else "")
        if depth == 0 and plain:
            run += plain
            continue
        runs.append(run[:-1] if token["repeated"] else run)
        run = ""
        if depth == 0 and text == "|":
            yield runs
            runs = []
    yield [*runs, run]
