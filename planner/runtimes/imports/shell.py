"""The commands of a shell script as text: variables, arrays and quotes are followed, nothing is run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem
from planner.inputs.yaml_file import read_text
from planner.runtimes.imports import shell_known
from planner.runtimes.imports.arithmetic import arithmetic
from planner.runtimes.imports.branches import Branches
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.shell_documents import Documents
from planner.runtimes.imports.shell_fields import Fields
from planner.runtimes.imports.shell_script import ShellScript
from planner.units import is_whole

MOST_CHARACTERS: Final = 1_000_000
"""Length of a variable's value, or of all commands together, beyond which a script is refused."""

_OPENS: Final = {"if", "for", "while", "until", "case"}
_CLOSES: Final = {"fi", "done", "esac"}
_WORDS: Final = _OPENS | _CLOSES | {"then", "else", "elif", "do", "!", "{", "}", "time", "exec", "function"}
_DECLARES: Final = {"export", "local", "declare", "readonly", "typeset"}
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_NAME: Final = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_BRACED: Final = re.compile(
    r"(!?)([A-Za-z_]\w*|[0-9@*]+)(\[(?:[@*]|\d{1,4})\])?(?:(:?[-=+?])(.*))?", re.DOTALL
)
_REDIRECT: Final = re.compile(r"\d*(?:<<<|<<-?|<>|>>|>&|<&|>\||&>>|&>|>|<)")
_ARGUMENTS: Final = re.compile(
    r'"\$(?:[@*]|\{[@*](?::\d+)?\})"|\$(?:[@*]|\{[@*](?::\d+)?\})'  # "$@", ${@:2}, $*
)
"""The arguments of the script itself: there are none."""
_INNER_ARGUMENTS: Final = re.compile(r"\$(?:[@*]|\{[@*](?::\d+)?\})")
_ARGUMENT: Final = re.compile(r"\$\{\d+\}|\s*")
"""An argument of the script, which nobody gave, or nothing: what a condition then sets is its default."""
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)(?![\w\[]))")
_HERE: Final = re.compile(r"^(?:`pwd`|\$\(pwd\)|\$PWD|\$\{PWD\})/")
"""The folder that a script is called from, taken for its own."""
MOST_SOURCED: Final = 20
"""How many scripts are read in the place where one sources them."""
_EXPR: Final = re.compile(r"\s*expr\s+")


def read_script(
    text: str, where: str, outer: ShellScript | None = None, options: Mapping[str, str] | None = None
) -> ShellScript:
    """Return the commands of a shell script, which an ``outer`` one with its variables may start.

    ``options``: what ``sbatch`` is told before it, which goes before the script's own lines.

    Raises `InputError` if a quote or a bracket is not closed, or if its variables grow without bound.
    """
    directives = shell_known.slurm_directives(text) | dict(options or {})
    reader = _Reader(shell_known.plain_text(text), where, shell_known.slurm_variables(directives))
    reader.variables |= {name: list(values) for name, values in outer.variables.items()} if outer else {}
    reader.run()
    doubts = tuple(tuple(sorted(reader.behind(names) & reader.doubtful)) for names in reader.used)
    texts = [value for values in reader.variables.values() for value in values if " " in value.strip()]
    commands = tuple(map(tuple, reader.commands))
    texts.reverse()
    return ShellScript(
        *(commands, directives, doubts, tuple(texts), reader.variables, reader.documents.texts),
        loops=tuple(reader.loops),
    )


class _Reader:
    """Goes through the text once, expanding as a shell would."""

    def __init__(self, text: str, where: str, outer: Mapping[str, str] | None = None) -> None:
        self.text, self.where, self.at, self.size = text, where, 0, 0
        self.outer, self.sourced = outer or {}, 0
        self.variables: dict[str, list[str]] = {}
        self.commands: list[list[str]] = []
        self.doubtful: set[str] = set()
        self.using: set[str] = set()
        self.sources: dict[str, set[str]] = {}
        self.used: list[set[str]] = []
        self.depth, self.loop = 0, False
        self.loops: list[str] = []
        self.branches = Branches()
        self.documents = Documents()

    def fault(self, found: str, expected: str) -> InputError:
        line = self.text.count("\n", 0, self.at) + 1
        return InputError(Problem(f"{self.where}:{line}", found, expected))

    def run(self) -> None:
        words: list[str] = []
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in "\n;&|()":
                self.finish(words)
                words = []
                self.at += 1
                if sign == "\n":
                    self.at = self.documents.bodies(self.text, self.at, self.simple)
                    self.variables.update({name: [text] for name, text in self.documents.read.items()})
                    self.documents.read.clear()
            elif not self.blank() and not self.redirection():
                before = self.at
                words = self.next_word(words)
                self.at += self.at == before
        self.finish(words)

    def next_word(self, words: list[str]) -> list[str]:
        start = not words or words[0] in _DECLARES
        match = _ASSIGNMENT.match(self.text, self.at) if start else None
        if match is not None:
            self.at = match.end()
            self.assign(match[1], self.value(), bool(match[2]))
            return words
        found = self.word()
        if not words and len(found) == 1 and found[0] in _WORDS:
            self.depth = max(0, self.depth + (found[0] in _OPENS) - (found[0] in _CLOSES))
            self.branches.keyword(found[0])
            self.loop = found[0] == "for"
            return words
        return words + found

    def finish(self, words: list[str]) -> None:
        """Keep a command."""
        self.size += sum(map(len, words))
        if self.size > MOST_CHARACTERS:
            raise self.fault("commands without end", "a script that people write")
        if self.loop and words[1:2] == ["in"]:
            self.each(words[0], words[2:])
            words = []
        self.branches.command(words)
        self.documents.finish(words, not self.branches.left_out)
        if len(words) > 1 and words[0] in ("source", ".") and not self.branches.left_out:
            self.source(words[1])
        elif words and words[0] not in _DECLARES and not self.branches.left_out:
            self.commands.append(words)
            self.used.append(self.using)
        self.using = set()

    def each(self, name: str, values: list[str]) -> None:
        """Set the variable of a loop to the value that the environment chooses, or to its first."""
        self.loop = False
        said = os.environ.get(name, "")
        if values and not self.branches.left_out and not any(set("$`*{") & set(value) for value in values):
            self.assign(name, [said if said in values else values[0]], appended=False)
            if len(values) > 1:
                self.doubtful.add(name)
                self.loops.append(name)

    def source(self, name: str) -> None:
        """Read a script in this one's place if it lies near it; others are passed over."""
        name = _HERE.sub("", name)
        file = find_beside(Path(name), Path(self.where)) if Path(name).suffix and "$" not in name else None
        self.sourced += 1
        if file is None or Path(name).is_absolute() or self.sourced > MOST_SOURCED:
            return
        outer, words = (self.text, self.at, self.using), len(self.commands)
        try:
            self.text, self.at = shell_known.plain_text(read_text(file)), 0
            self.run()
        except InputError:
            del self.commands[words:], self.used[words:]
        self.text, self.at, self.using = outer

    def behind(self, names: set[str]) -> set[str]:
        """Return ``names`` and the variables that their values were made of."""
        found: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            left += self.sources.get(name, set()) - found
            found.add(name)
        return found

    def blank(self) -> bool:
        """Skip a blank, a continued line or a comment."""
        sign = self.text[self.at]
        if sign in " \t":
            self.at += 1
        elif self.text.startswith("\\\n", self.at):
            self.at += 2
        elif sign == "#":
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end
        else:
            return False
        return True

    def redirection(self) -> bool:
        """Skip a redirection and its file; the body of a here-document is skipped at the end of the line."""
        match = _REDIRECT.match(self.text, self.at)
        if match is None or self.text.startswith(("<(", ">("), self.at):
            return False
        self.at = match.end()
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        plain = self.text[self.at : self.at + 1] not in ("'", '"', "\\")
        self.documents.redirect(match[0], "".join(self.word()), plain)
        return True

    def assign(self, name: str, parts: list[str], appended: bool) -> None:
        if self.branches.left_out:
            self.using = set()
            return
        unsure, again = self.depth > self.branches.certain, self.branches.again(name)
        before = self.variables.get(name, [])
        grows = appended or name in self.using
        self.sources.setdefault(name, set()).update(self.using - {name})
        self.using = set()
        default = (
            name not in self.doubtful and _ARGUMENT.fullmatch(" ".join(before)) and "$" not in "".join(parts)
        )
        if unsure and before and (appended or before != parts):
            self.doubtful.add(name)
        if unsure and before and not grows and not default:
            return
        if again and unsure and grows:
            self.doubtful.add(name)
            return
        if appended and len(parts) == 1 and len(before) == 1 and self.text[self.at - 1] != ")":
            parts = [before[0] + parts[0]]
        elif appended:
            parts = before + parts
        if sum(map(len, parts)) > MOST_CHARACTERS:
            raise self.fault(f"{name} without end", "a script that people write")
        self.variables[name] = parts

    def value(self) -> list[str]:
        """Read what stands right of an equals sign: an array, or one word that is not split."""
        if not self.text.startswith("(", self.at):
            return [" ".join(self.word(splits=False))]
        self.at += 1
        parts: list[str] = []
        while not self.text.startswith(")", self.at):
            if self.at >= len(self.text):
                raise self.fault("an array without end", "a closing bracket")
            if self.text[self.at] in "\n;&|(<>":
                self.at += 1
            elif not self.blank():
                parts += self.word()
        self.at += 1
        return parts

    def word(self, splits: bool = True) -> list[str]:
        """Read one word and return its fields."""
        fields = Fields()
        while self.at < len(self.text) and self.text[self.at] not in " \t\n;&|()<>":
            sign = self.text[self.at]
            if own := _ARGUMENTS.match(self.text, self.at):
                self.at = own.end()
            elif sign == "\\":
                fields.add(
                    "" if self.text.startswith("\\\n", self.at) else self.text[self.at + 1 : self.at + 2]
                )
                self.at += 2
            elif sign == "'" or self.text.startswith("$'", self.at):
                self.at += 1 + (sign == "$")
                fields.add(self.until("'"))
            elif sign == '"':
                self.at += 1
                self.quoted(fields)
            elif sign in "$`":
                parts = self.expansion()
                for number, part in enumerate(parts):
                    if number:
                        fields.close()
                    fields.split(part) if splits else fields.add(part)
            else:
                fields.add(sign)
                self.at += 1
        fields.close()
        return fields.done

    def until(self, mark: str) -> str:
        end = self.text.find(mark, self.at)
        if end < 0:
            raise self.fault(f"{mark} without its end", "closed quotes")
        inside, self.at = self.text[self.at : end], end + 1
        return inside

    def quoted(self, fields: Fields) -> None:
        fields.add("")
        while True:
            if self.at >= len(self.text):
                raise self.fault('" without its end', "closed quotes")
            sign = self.text[self.at]
            if sign == '"':
                self.at += 1
                return
            if sign == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                after = self.text[self.at + 1]
                fields.add("" if after == "\n" else after)
                self.at += 2
            elif own := _INNER_ARGUMENTS.match(self.text, self.at):
                self.at = own.end()
            elif sign in "$`":
                fields.spread(self.expansion() or [""])
            else:
                fields.add(sign)
                self.at += 1

    def expansion(self) -> list[str]:
        """Read what follows a dollar sign or a backquote; what only a shell can tell stays as written."""
        start = self.at
        if self.text[self.at] == "`":
            self.at += 1
            return [f"`{self.until('`')}`"]
        if self.text.startswith("$(", self.at):
            inside = self.balanced("(", ")")
            whole = self.text[start : self.at]
            if inside.startswith("("):
                printed = shell_known.PRINTED.search(inside)
                return [whole if printed else arithmetic(self.named(inside[1:-1]))]
            if sums := _EXPR.match(inside):
                return [arithmetic(self.named(inside[sums.end() :].replace("\\*", "*")))]
            written = shell_known.here_document(inside, self.simple)
            return [written or shell_known.place_of(_VARIABLE.sub(self.simple, inside), self.where) or whole]
        if self.text.startswith("${", self.at):
            inside = self.balanced("{", "}")
            return self.braced(inside, self.text[start : self.at])
        match = _NAME.match(self.text, self.at + 1)
        self.at = match.end() if match else self.at + 1
        if match is None:
            return ["$"]
        self.using.add(match[0])
        return (self.known(match[0]) or [f"${{{match[0]}}}"])[:1]

    def known(self, name: str) -> list[str] | None:
        """Return a variable's value: the script's, else the environment's; None where neither sets it.

        What a command would print in the script is the environment's to say.
        """
        found = self.variables.get(name)
        printed = found is not None and len(found) == 1 and shell_known.PRINTED.search(found[0]) is not None
        said = (self.outer.get(name) or os.environ.get(name)) if found is None or printed else None
        return [said] if said else found

    def simple(self, match: re.Match[str]) -> str:
        """Return the value of a variable in a text; itself where it is not known."""
        return "".join((self.known(match[1] or match[2]) or [match[0]])[:1])

    def balanced(self, left: str, right: str) -> str:
        """Read from the bracket after the dollar sign to its partner and return what is between."""
        start, depth = self.at + 2, 0
        for place in range(self.at + 1, len(self.text)):
            depth += (self.text[place] == left) - (self.text[place] == right)
            if depth == 0:
                self.at = place + 1
                return self.text[start:place]
        raise self.fault(f"${left} without its end", "closed brackets")

    def braced(self, inside: str, whole: str) -> list[str]:
        match = _BRACED.fullmatch(inside)
        if match is None or match[1]:
            return [whole]
        name, every, operator, word = match[2], match[3], match[4] or "", match[5] or ""
        self.using.add(name)
        known = self.known(name)
        if operator.endswith("+"):
            return [self.expanded(word)] if known and any(known) else [""]
        if known is None or (operator.startswith(":") and not any(known)):
            if operator.endswith(("-", "=")):
                default = [self.expanded(word)]
                self.variables |= {name: default} if operator.endswith("=") else {}
                return default
            return [""] if every else [f"${{{name}}}"]
        if every and is_whole(every[1:-1]):
            return known[int(every[1:-1]) :][:1] or [""]
        return known if every else known[:1]

    def expanded(self, text: str) -> str:
        """Return a default of a braced variable, its own variables followed."""
        inner = _Reader(text, self.where, self.outer)
        inner.variables, inner.using = self.variables, self.using
        words: list[str] = []
        while inner.at < len(text):
            if not inner.blank():
                before = inner.at
                words += inner.word()
                inner.at += inner.at == before
        return " ".join(words)

    def named(self, text: str) -> str:
        """Return arithmetic with its variables replaced, as far as their values are known."""

        def value(match: re.Match[str]) -> str:
            self.using.add(match[1])
            found = "".join((self.known(match[1]) or [])[:1])
            return found if found and not shell_known.PRINTED.search(found) else f"${{{match[1]}}}"

        return re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", value, text)
