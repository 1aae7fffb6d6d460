"""Variables that a file leaves to the environment: ``NAME=value planner estimate --from FILE`` sets them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any, Final

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-?([^{}]*))?\}")
_WHOLE: Final = re.compile(r"[+-]?\d{1,18}")


def filled(value: Any) -> Any:
    """Return a tree of YAML with its ``${NAME}`` and ``${NAME:default}`` replaced; unset ones stay.

    Examples
    --------
    >>> filled({"a": "${PLANNER_UNSET:8}", "b": "x${PLANNER_UNSET}"})
    {'a': 8, 'b': 'x${PLANNER_UNSET}'}
    """
    if isinstance(value, dict):
        return {key: filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [filled(item) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    text = _VARIABLE.sub(_one, value)
    return _plain(text) if text != value else text


def _one(match: re.Match[str]) -> str:
    said = os.environ.get(match[1]) or match[2]
    return match[0] if said is None else said


def _plain(text: str) -> Any:
    words: dict[str, Any] = {"true": True, "false": False, "null": None}
    return int(text) if _WHOLE.fullmatch(text.strip()) else words.get(text.strip().lower(), text)


def unset(value: Any) -> Iterator[str]:
    """Yield the names of variables that are left in a text or a tree, each once and in order."""
    texts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if texts is None:
        yield from dict.fromkeys(match[1] for match in _VARIABLE.finditer(str(value)))
        return
    yield from dict.fromkeys(name for text in texts for name in unset(text))
