"""Fields of a runner's sections with the kind of value that each takes, by tables of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

HELD: Final[Mapping[str, tuple[type, ...]]] = {"i": (int,), "f": (int, float), "b": (bool,), "s": (str,)}
WORDS: Final = {"i": "a whole number", "f": "a number", "b": "true or false", "s": "text"}


@cache
def field_kinds(table: str) -> Mapping[str, Mapping[str, str]]:
    """Return the fields of each section of a table of this folder, each with its kind, which may be empty."""
    text = Path(__file__).with_name(table).read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {section: dict(name.partition(":")[::2] for name in names) for section, *names in lines}


def misfit(kind: str, value: Any) -> str:
    """Return what a field of a kind takes instead of a value; nothing where it takes the value.

    Examples
    --------
    >>> misfit("i?", None), misfit("i", None), misfit("f", 1), misfit("b", "other")
    ('', 'a whole number', '', 'true or false')
    """
    held = HELD.get(kind[:1])
    if held is None or isinstance(value, held) or (value is None and kind.endswith("?")):
        return ""
    return WORDS[kind[0]]
