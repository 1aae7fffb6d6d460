"""Keys of configuration files that stand for one option or trait each, with its values in their words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.dataclasses import dataclass, field


@dataclass(frozen=True)
class FileKey:
    """One key, written and read by the same row."""

    path: str
    """Its sections and its name, with dots between them."""
    values: Mapping[Any, Any] = field(default_factory=dict)
    """Ours, and for each the file's; none where the file has our own."""

    @property
    def name(self) -> str:
        """Its name within its section."""
        return self.path.rpartition(".")[2]

    def told(self, value: Any) -> Any:
        """Return the file's word for a value of ours."""
        return self.values[value] if self.values else value

    def meant(self, word: object) -> Any:
        """Return the value that a word of a file stands for, in any case; None where it stands for none."""
        known = {str(theirs).lower(): ours for ours, theirs in self.values.items()}
        return known.get(str(word).lower()) if self.values else word


def nested(leaves: Mapping[str, object]) -> dict[str, object]:
    """Return keys with dots in their names as sections; the reverse of `imports.literals.flat`.

    Examples
    --------
    >>> nested({"a.b": 1, "c": [2], "a.d": 3})
    {'a': {'b': 1, 'd': 3}, 'c': [2]}
    """
    tree: dict[str, Any] = {}
    for path, value in leaves.items():
        *sections, name = path.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return tree
