"""What a shell script writes before it trains, from here-documents and with ``echo``: files and variables."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from planner.runtimes.imports.shell_known import document_body


class Documents:
    """What redirections of one script say, command by command.

    ``texts`` has the files by their names, ``read`` the variables that ``read`` filled since they were taken.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.read: dict[str, str] = {}
        self._marks: list[tuple[str, bool]] = []
        self._output = self._filled = self._named = ""

    def redirect(self, sign: str, target: str, plain: bool) -> None:
        """Keep a redirection: ``plain`` says whether a here-document's mark has no quotes."""
        if sign.lstrip("0123456789") in ("<<", "<<-"):
            self._marks.append((target, plain))
        elif sign in (">", ">|", "1>"):
            self._output = target

    def finish(self, words: Sequence[str], runs: bool) -> None:
        """End a command: where it ``runs``, ``cat`` and ``tee`` fill a file with the here-document below."""
        output, self._output, self._filled, self._named = self._output, "", "", ""
        if not runs or not words:
            return
        if words[0] == "echo" and output:
            self.texts[output] = " ".join(words[1:])
        elif words[0] == "read" and "-d" in words:
            self._named = words[-1]
        elif words[0] == "tee" and len(words) > 1:
            self._filled = words[-1]
        elif list(words) == ["cat"]:
            self._filled = output

    def bodies(self, text: str, at: int, variable: Callable[[re.Match[str]], str]) -> int:
        """Take the bodies of here-documents from the start of a line; return where they end."""
        for mark, plain in self._marks:
            end = re.compile(rf"^\t*{re.escape(mark)}$", re.MULTILINE).search(text, at)
            body = text[at : end.start() if end else len(text)]
            said = document_body(body, variable) if plain else body
            if self._filled:
                self.texts[self._filled] = said
            if self._named:
                self.read[self._named] = said.strip()
            at = end.end() if end else len(text)
        self._marks, self._filled, self._named = [], "", ""
        return at
