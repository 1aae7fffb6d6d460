"""Which branches of a shell script are run, where its own text alone tells it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

WORDS: Final = ("if", "then", "elif", "else", "fi")


@dataclass
class _If:
    """One conditional: whether its condition holds, if that is known, and in which part the reader is.

    ``sure`` says that all conditions before are known not to hold, ``taken`` that one is known to hold.
    """

    truth: bool | None = None
    conditions: int = 0
    part: str = "if"
    sure: bool = True
    taken: bool = False
    before: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    @property
    def left_out(self) -> bool:
        return self.taken or (self.part == "then" and self.truth is False)

    @property
    def certain(self) -> bool:
        return self.sure and ((self.part == "then" and self.truth is True) or self.part == "else")

    def next_part(self, word: str) -> None:
        if word != "then":
            self.taken = self.taken or (self.sure and self.truth is True)
            self.sure = self.sure and self.truth is False
            self.before |= self.names
            self.names = set()
        if word == "elif":
            self.truth, self.conditions = None, 0
        self.part = word


@dataclass
class Branches:
    """Follows conditionals whose text alone tells which part is run; of others any may be."""

    open: list[_If] = field(default_factory=list)

    @property
    def left_out(self) -> bool:
        """Whether what is read now would never be run."""
        return any(one.left_out for one in self.open)

    @property
    def certain(self) -> int:
        """How many of the conditionals around what is read now are known to be run."""
        return sum(one.certain for one in self.open)

    def keyword(self, word: str) -> None:
        """Take note of a word of the shell."""
        if word == "if":
            self.open.append(_If())
        elif word == "fi" and self.open:
            self.open.pop()
        elif word == "!" and self.open:
            self.open[-1].conditions += 1
        elif word in WORDS and self.open:
            self.open[-1].next_part(word)

    def command(self, words: Sequence[str]) -> None:
        """Take note of a command, which may be a condition."""
        if not (words and self.open and self.open[-1].part in ("if", "elif")):
            return
        last = self.open[-1]
        last.conditions += 1
        truth = _truth(words) if last.conditions == 1 else None
        last.truth = truth if last.sure or truth is False else None

    def again(self, name: str) -> bool:
        """Note a variable that is set; return whether another part of a conditional has set it before."""
        found = any(name in one.before for one in self.open)
        for one in self.open:
            one.names.add(name)
        return found


_ENDS: Final = {"[[": "]]", "[": "]"}
_SAME: Final = {"==": True, "=": True, "!=": False}
_NUMBERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "-eq": lambda one, other: one == other,
    "-ne": lambda one, other: one != other,
    "-gt": lambda one, other: one > other,
    "-lt": lambda one, other: one < other,
    "-ge": lambda one, other: one >= other,
    "-le": lambda one, other: one <= other,
}


def _truth(words: Sequence[str]) -> bool | None:
    """Return whether a condition holds, None where its text alone does not tell."""
    inner = words[1:-1]
    if len(words) < 3 or _ENDS.get(words[0]) != words[-1] or any(set("$`") & set(word) for word in inner):
        return None
    if len(inner) == 2 and inner[0] in ("-n", "-z"):
        return bool(inner[1]) == (inner[0] == "-n")
    if len(inner) != 3:
        return None
    left, sign, right = inner
    if sign in _NUMBERS:
        plain = re.fullmatch(r"-?\d{1,18}", left) and re.fullmatch(r"-?\d{1,18}", right)
        return _NUMBERS[sign](int(left), int(right)) if plain else None
    if sign not in _SAME or set("*?[") & set(right):
        return None
    return (left == right) == _SAME[sign]
