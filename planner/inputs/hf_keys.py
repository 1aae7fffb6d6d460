"""The keys of a config that are looked for, and those that are one letter off one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

LONG: Final = 8
"""Letters from which a key is told apart from others by one."""


class Keys(dict[str, Any]):
    """The keys of a file, of which those that are looked for are known."""

    def __init__(self, keys: Mapping[str, Any], asked: set[str]) -> None:
        super().__init__(keys)
        self.asked = asked

    def __getitem__(self, key: str) -> Any:
        """The value of a key, which is known from here on."""
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is known from here on."""
        self.asked.add(key)
        return super().get(key, default)


def near_misses(
    said: Collection[str], asked: Iterable[str], idle: Iterable[str] = ()
) -> Iterator[tuple[str, str]]:
    """Yield each of a file's keys ``said`` that is one letter off one that was looked for, and that one.

    ``idle``: keys without effect, which types spell in several ways.
    """
    wanted = set(asked)
    long = sorted(name for name in wanted.difference(said, idle) if len(name) >= LONG)
    for key in (key for key in said if isinstance(key, str) and key not in wanted):
        if meant := next((name for name in long if _one_off(key, name)), ""):
            yield key, meant


def _one_off(one: str, other: str) -> bool:
    """Whether a letter added, lost or changed, or two exchanged, makes one word the other."""
    if abs(len(one) - len(other)) > 1 or one == other:
        return False
    start = next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    a, b = one[start:], other[start:]
    return a[1:] == b[1:] or a[1:] == b or a == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])
