"""References of a Hydra or OmegaConf YAML to its own keys, and the sums that NeMo's launcher has for them.

References
----------
.. [1] OmegaConf 2.3, "Variable interpolation" and "Resolvers" (https://omegaconf.readthedocs.io).
.. [2] NeMo-Framework-Launcher, launcher_scripts/main.py: ``multiply``, ``divide_ceil``, ``divide_floor``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_INNER: Final = re.compile(r"\$\{([^${}]{1,200})\}")
_WHOLE: Final = re.compile(r"[+-]?\d{1,18}")
MOST_LETTERS: Final = 2000
MOST_DEPTH: Final = 40

SUMS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "multiply": lambda one, other: one * other,
    "divide_floor": lambda one, other: one // other,
    "divide_ceil": lambda one, other: -(-one // other),
    "add": lambda one, other: one + other,
}


def interpolated(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tree with the references that its own keys, the environment or a sum answer.

    A key of the whole configuration whose first word is the package that the file is put in
    (``training.model.x``) is looked up without it; what is not known stays as it is written.

    Examples
    --------
    >>> interpolated({"model": {"hidden": 8, "ffn": "${multiply:4, ${.hidden}}", "x": "${model.ffn}"}})
    {'model': {'hidden': 8, 'ffn': 32, 'x': 32}}
    """
    reader = _Reader(tree)
    return {key: reader.resolved(value, (str(key),)) for key, value in tree.items()}


class _Reader:
    """Follows the references of one tree; each key once, and none that leads to itself."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self.root = root
        self.known: dict[tuple[str, ...], Any] = {}

    def resolved(self, value: Any, place: tuple[str, ...]) -> Any:
        if len(place) > MOST_DEPTH:
            return value
        if isinstance(value, Mapping):
            return {key: self.resolved(item, (*place, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, (*place, "")) for item in value]
        at = 0
        while isinstance(value, str) and len(value) < MOST_LETTERS and (match := _INNER.search(value, at)):
            answer = self.answer(match[1], place)
            if answer is None:
                at = match.end()
            elif match[0] == value.strip():
                return _plain(answer)
            else:
                value, at = value[: match.start()] + str(answer) + value[match.end() :], 0
        return value

    def answer(self, text: str, place: tuple[str, ...]) -> Any:
        name, colon, rest = text.partition(":")
        if not colon:
            return self.looked_up(text.strip(), place)
        words = [word.strip() for word in rest.split(",")]
        if name == "oc.env":
            return os.environ.get(words[0]) or (words[1] if len(words) > 1 else None)
        numbers = [int(word) for word in words if _WHOLE.fullmatch(word)]
        zero = name.startswith("divide") and 0 in numbers[1:]
        known = name in SUMS and len(words) == len(numbers) == 2 and not zero
        return SUMS[name](*numbers) if known else None

    def looked_up(self, path: str, place: tuple[str, ...]) -> Any:
        plain = path.lstrip(".")
        up = len(path) - len(plain)
        words = tuple(plain.split("."))
        places = [(*place[: max(0, len(place) - up)], *words)] if up else [words, words[1:]]
        for whole in filter(None, places):
            if whole not in self.known:
                self.known[whole] = None
                self.known[whole] = self.resolved(_value(self.root, whole), whole)
            if self.known[whole] is not None:
                return self.known[whole]
        return None


def _value(tree: Any, words: tuple[str, ...]) -> Any:
    for word in words:
        tree = tree.get(word) if isinstance(tree, Mapping) else None
    return None if isinstance(tree, Mapping | list) else tree


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value.strip()) else value
