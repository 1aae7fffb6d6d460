"""The fields of one word of a shell script."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Fields:
    """The fields of a word while it is read: an unquoted expansion may end one and begin another."""

    done: list[str] = field(default_factory=list)
    open: str | None = None

    def add(self, text: str) -> None:
        """Put text at the end of the open field."""
        self.open = (self.open or "") + text

    def spread(self, parts: list[str]) -> None:
        """Put each part in a field of its own; the first continues the open one."""
        for number, part in enumerate(parts):
            if number:
                self.close()
            self.add(part)

    def split(self, text: str) -> None:
        """Put the words of an unquoted expansion in fields."""
        if text[:1].isspace():
            self.close()
        self.spread(_words(text))
        if text[-1:].isspace():
            self.close()

    def close(self) -> None:
        """End the open field."""
        if self.open is not None:
            self.done.append(self.open)
        self.open = None


def _words(text: str) -> list[str]:
    """Split at blanks, but for those inside ``$(...)``, which nobody runs: what it prints is one word here.

    Examples
    --------
    >>> _words("--tp 8 --name run_$(date +%F)_$((a + 1)) --bf16")
    ['--tp', '8', '--name', 'run_$(date +%F)_$((a + 1))', '--bf16']
    >>> _words("$(never closed")
    ['$(never', 'closed']
    """
    if "$(" not in text:
        return text.split()
    words, start, depth = [], 0, 0
    for place, sign in enumerate(text):
        if sign == "(" and (depth or text[place - 1 : place] == "$"):
            depth += 1
        elif sign == ")" and depth:
            depth -= 1
        elif sign.isspace() and not depth:
            words.append(text[start:place])
            start = place + 1
    words += [text[start:]] if not depth else text[start:].split()
    return [word for word in words if word]
