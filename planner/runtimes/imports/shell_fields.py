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
        self.spread(text.split())
        if text[-1:].isspace():
            self.close()

    def close(self) -> None:
        """End the open field."""
        if self.open is not None:
            self.done.append(self.open)
        self.open = None
