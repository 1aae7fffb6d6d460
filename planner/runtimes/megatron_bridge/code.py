"""Python expressions of the file that Megatron-Bridge runs, by field of a section."""

from __future__ import annotations


class Code(str):
    """A Python expression, written as it stands; every other value is written as its repr."""

    __slots__ = ()


Section = dict[str, object]


def setting(name: str, kind: str = "int") -> Code:
    """Return the expression of a variable as a number."""
    return Code(f'{kind}(SETTINGS["{name}"])')
