"""Which branches of a shell script are run, where its own text alone tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

WORDS: Final = ("if", "then", "elif", "else", "fi")


@dataclass
class _If:
    """One conditional: whether its condition holds, if that is known, and in which part the reader is."""

    truth: bool | None = None
    conditions: int = 0
    part: str = "if"

    @property
    def left_out(self) -> bool:
        return (self.part == "then" and self.truth is False) or (self.part == "else" and self.truth is True)


@dataclass
class Branches:
    """Follows ``if [[ -n "text" ]]`` and ``-z`` where the text is known; others may go either way."""

    open: list[_If] = field(default_factory=list)

    @property
    def left_out(self) -> bool:
        """Whether what is read now would never be run."""
        return any(one.left_out for one in self.open)

    @property
    def certain(self) -> int:
        """How many of the conditionals around what is read now are known to be run."""
        return sum(one.truth is not None and one.part != "if" for one in self.open)

    def keyword(self, word: str) -> None:
        """Take note of a word of the shell."""
        if word == "if":
            self.open.append(_If())
        elif word == "fi" and self.open:
            self.open.pop()
        elif word == "!" and self.open:
            self.open[-1].conditions += 1
        elif word in WORDS and self.open:
            self.open[-1].part = word
            if word == "elif":
                self.open[-1].truth = None

    def command(self, words: Sequence[str]) -> None:
        """Take note of a command, which may be a condition."""
        if not (words and self.open and self.open[-1].part == "if"):
            return
        last = self.open[-1]
        last.conditions += 1
        last.truth = _truth(words) if last.conditions == 1 else None


def _truth(words: Sequence[str]) -> bool | None:
    if len(words) != 4 or words[0] != "[[" or words[3] != "]]" or words[1] not in ("-n", "-z"):
        return None
    if "$" in words[2] or "`" in words[2]:
        return None
    return bool(words[2]) == (words[1] == "-n")
