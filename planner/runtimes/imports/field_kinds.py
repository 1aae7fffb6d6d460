"""Fields of a runner's sections with the kind of value that each takes, by tables of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
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


@cache
def needed(table: str) -> Mapping[str, tuple[str, ...]]:
    """Return for each section of a table the fields that have no default, where it has any."""
    kinds = field_kinds(table).items()
    found = {section: tuple(name for name, kind in names.items() if "!" in kind) for section, names in kinds}
    return {section: names for section, names in found.items() if names}


def absent(table: str, values: Collection[str], sections: Container[str]) -> Iterator[str]:
    """Yield the fields without a default that are not there, of the sections that are.

    ``values``: keys that have a value; ``sections``: the sections that are there.
    """
    said = {*values, *sections_of(values)}
    for section, names in needed(table).items():
        if section in sections:
            yield from (key for name in names if (key := f"{section}.{name}") not in said)


def sections_of(keys: Iterable[str]) -> set[str]:
    """Return the sections that some keys stand in.

    Examples
    --------
    >>> sorted(sections_of(["model.model_config.is_llama_config", "tokens.train_steps"]))
    ['model', 'model.model_config', 'tokens']
    """
    return {key[: dot.start()] for key in keys for dot in re.finditer(r"\.", key)}


def misfit(kind: str, value: Any) -> str:
    """Return what a field of a kind takes instead of a value; nothing where it takes the value.

    A variable of the shell that has no value there may be any.

    Examples
    --------
    >>> misfit("i?", None), misfit("i", None), misfit("f", 1), misfit("b", "other")
    ('', 'a whole number', '', 'true or false')
    """
    held = HELD.get(kind[:1])
    if held is None or isinstance(value, held) or (value is None and kind.endswith("?")):
        return ""
    if isinstance(value, str) and re.fullmatch(r"\$\{?\w+\}?", value):
        return ""
    return WORDS[kind[0]]
