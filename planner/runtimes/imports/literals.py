"""Constants at the top of a Python file, read and never run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=16)
def tree_of(text: str) -> ast.Module:
    """Return the syntax tree of a module, which nobody may change.

    Raises what `ast.parse` raises if the text is no Python.
    """
    return ast.parse(text)


def statements(text: str) -> list[ast.stmt]:
    """Return the statements at the top of a module; none where the text is no Python."""
    try:
        return tree_of(text).body
    except (SyntaxError, ValueError, RecursionError):
        return []


def literals(text: str) -> dict[str, Any]:
    r"""Return the values of upper-case names that a module assigns plain data to; nothing if it is no Python.

    Examples
    --------
    >>> literals("SEQ_LEN = 4096\nHERE = Path(__file__)\n")
    {'SEQ_LEN': 4096}
    """
    found: dict[str, Any] = {}
    for node in statements(text):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            try:
                found[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, RecursionError):
                continue
    return {name: value for name, value in found.items() if name.isupper()}


def flat(tree: Mapping[str, Any], place: str = "") -> dict[str, Any]:
    """Return nested tables as one, their keys joined by dots.

    Examples
    --------
    >>> flat({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    leaves: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{place}.{key}" if place else str(key)
        leaves |= flat(value, name) if isinstance(value, Mapping) else {name: value}
    return leaves
