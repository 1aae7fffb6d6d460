"""Run the examples of the documents, and rewrite the outputs that they show.

A ``console`` block holds lines ``$ command`` (continued after a backslash) and what they print, standard
error included. The commands of one document run one after another in one empty folder, each in a shell of
its own. A ``python`` block runs as a doctest where it has ``>>>``, else as a program. Comments before a
block say more:

``<!-- exit 1 -->``            the last command of the block exits with 1
``<!-- numbers vary -->``      numbers and the widths of columns are not compared
``<!-- file: my.yaml -->``     the block, of any language, is a file that later commands find
``<!-- not run: why -->``      the block is not run; shell blocks that are not ``console`` must say so

A line ``...`` in an output stands for any lines.
``python -m tests.cli.docs_blocks [FILE...]`` rewrites outputs.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import itertools
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import ROOT, user_environment
from tests.served import started

SHELLS = {"sh", "bash", "shell", "zsh", "shell-session"}
FENCE = re.compile(r"( *)(`{3,}|~{3,}) *([\w+-]*)")
NOTE = re.compile(r" *<!-- *(.*?) *-->")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*(?:[eE][-+]?\d+)?")
ANY_LINES = "..."


@dataclass(frozen=True)
class Block:
    """A fenced block: the line of its fence, its indent, language, the notes before it, and its lines."""

    line: int
    indent: str
    language: str
    notes: tuple[str, ...]
    lines: tuple[str, ...]

    def note(self, word: str) -> str | None:
        """Return what follows ``word`` in the notes, or None where no note starts with it."""
        found = (note.removeprefix(word).strip(" :") for note in self.notes if note.startswith(word))
        return next(found, None)


@dataclass(frozen=True)
class Command:
    """A command of a console block, as written, with the output shown and what is expected of it."""

    line: int
    source: tuple[str, ...]
    shown: tuple[str, ...]
    exit_code: int = 0
    numbers_vary: bool = False

    @property
    def text(self) -> str:
        """The command without prompts."""
        first, *rest = self.source
        return "\n".join([first.removeprefix("$ "), *(line.removeprefix("> ") for line in rest)])

    def fault(self, code: int, output: tuple[str, ...]) -> str:
        """Say in what ``code`` and ``output`` differ from the document, or nothing."""
        faults = [] if code == self.exit_code else [f"exit code {code}, not {self.exit_code}"]
        if not self.matches(output):
            faults += difflib.unified_diff(self.shown, output, "document", "printed", lineterm="")
        return "\n".join([f"line {self.line}: {self.text}", *faults]) if faults else ""

    def matches(self, output: tuple[str, ...]) -> bool:
        """Whether the document shows this output."""
        shown, real = (masked(lines) if self.numbers_vary else lines for lines in (self.shown, output))
        pattern = "".join(r"(?:.*\n)*?" if line == ANY_LINES else re.escape(line) + r"\n" for line in shown)
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in real)) is not None

    def rewritten(self, output: tuple[str, ...]) -> tuple[str, ...]:
        """Return the lines to show instead: as before where they match, else the new ones."""
        if self.matches(output):
            return self.shown
        if ANY_LINES not in self.shown:
            return output
        head = self.shown.index(ANY_LINES)
        tail = self.shown[::-1].index(ANY_LINES)
        return (*output[:head], ANY_LINES, *output[len(output) - tail :])


def masked(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``lines`` with numbers, widths and rules made equal."""
    texts = (re.sub(r"([-─━=])\1+", r"\1", NUMBER.sub("#", line)) for line in lines)
    return tuple(re.sub(r"\s+", " ", text).strip() for text in texts)


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a Markdown text in order."""
    lines = text.splitlines()
    notes: list[str] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        if match := FENCE.match(line):
            indent, fence, language = match.groups()
            stop = number + 1
            while stop < len(lines) and not lines[stop].strip().startswith(fence):
                stop += 1
            inside = tuple(row.removeprefix(indent).rstrip() for row in lines[number + 1 : stop])
            yield Block(number + 1, indent, language, tuple(notes), inside)
            notes, number = [], stop
        elif note := NOTE.fullmatch(line.rstrip()):
            notes.append(note[1])
        elif line.strip():
            notes = []
        number += 1


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block with what they print."""
    starts = [number for number, line in enumerate(block.lines) if line.startswith("$ ")]
    for start, stop in itertools.pairwise([*starts, len(block.lines)]):
        end = start + 1
        while block.lines[end - 1].endswith("\\") and end < stop:
            end += 1
        yield Command(
            line=block.line + 1 + start,
            source=block.lines[start:end],
            shown=without_blank_end(block.lines[end:stop]),
            exit_code=int(block.note("exit") or 0) if stop == len(block.lines) else 0,
            numbers_vary=block.note("numbers vary") is not None,
        )


def without_blank_end(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``lines`` without the blank ones at the end."""
    return tuple("\n".join(lines).rstrip().splitlines())


def run_command(command: Command, folder: Path) -> tuple[int, tuple[str, ...]]:
    """Run ``command`` in ``folder`` and return its exit code and lines."""
    tools = folder.parent / f"{folder.name}-bin"
    tools.mkdir(exist_ok=True)
    own = f'"{sys.executable}" -m planner' if (folder / "planner").is_dir() else f'"{started()}"'
    for name, start in (("planner", own), ("python", f'"{sys.executable}"')):
        (tools / name).write_text(f'#!/bin/sh\nexec {start} "$@"\n')
        (tools / name).chmod(0o755)
    environment = user_environment(folder)
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "-c", command.text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    printed = done.stdout.replace(f"{folder}/", "").replace(str(folder), ".").splitlines()
    return done.returncode, without_blank_end(tuple(line.rstrip() for line in printed))


def run_python(block: Block, folder: Path, names: dict[str, object]) -> str:
    """Run a python block in ``folder`` with the names that earlier ones left; return what failed."""
    text = "\n".join([*block.lines, ""])
    with contextlib.chdir(folder):
        if ">>> " not in text:
            exec(compile("\n" * block.line + text, "document", "exec"), names)
            return ""
        test = doctest.DocTestParser().get_doctest(text, names, "document", "document", block.line)
        report: list[str] = []
        doctest.DocTestRunner(verbose=False).run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
        return "".join(report)


@dataclass(frozen=True)
class Replay:
    """What became of a document: what is wrong with it, and its text with the outputs of today."""

    faults: tuple[str, ...]
    text: str


def replay(text: str, folder: Path) -> Replay:
    """Run every example of a document in ``folder``, in order."""
    faults: list[str] = []
    lines = text.splitlines()
    rewritten: list[tuple[Block, list[str]]] = []
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(text):
        if block.note("not run"):
            continue
        if name := block.note("file"):
            (folder / name).write_text("\n".join([*block.lines, ""]), encoding="utf-8")
        elif block.language == "console":
            found, shown = replay_console(block, folder)
            faults += found
            rewritten.append((block, shown))
        elif block.language == "python":
            faults += filter(None, [run_python(block, folder, names)])
        elif block.language in SHELLS:
            faults.append(f"line {block.line}: neither a console block nor noted as <!-- not run: why -->")
    for block, shown in reversed(rewritten):
        lines[block.line : block.line + len(block.lines)] = [
            f"{block.indent}{line}".rstrip() for line in shown
        ]
    return Replay(tuple(faults), "\n".join([*lines, ""]))


def replay_console(block: Block, folder: Path) -> tuple[list[str], list[str]]:
    """Run the commands of a console block; return what differs, and its lines with today's outputs."""
    faults: list[str] = []
    shown: list[str] = []
    session = list(commands(block))
    if not session:
        return [f"line {block.line}: no line starts with a dollar sign"], list(block.lines)
    for command in session:
        code, output = run_command(command, folder)
        faults += filter(None, [command.fault(code, output)])
        shown += [*command.source, *command.rewritten(output)]
    return faults, shown


def documents() -> list[Path]:
    """Return the documents whose examples are run and whose links are followed."""
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [path for path in (*tops, *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]


def main(names: Sequence[str]) -> None:
    """Rewrite the outputs shown in the documents of these names, or in all."""
    for path in [Path(name).resolve() for name in names] or documents():
        with tempfile.TemporaryDirectory() as folder:
            inside = Path(folder) / "run"
            inside.mkdir()
            before = path.read_text(encoding="utf-8")
            after = replay(before, inside)
        if after.text != before:
            path.write_text(after.text, encoding="utf-8")
            print(f"rewrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
