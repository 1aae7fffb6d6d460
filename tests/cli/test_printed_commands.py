"""Every command that a document, a golden file or a message prints is one that can be typed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from planner.cli.commands import HELP, LazyCommands
from tests.helpers import ROOT

PRINTED: Final = re.compile(r"`+(planner [^`\n]+)`+|\$ (planner [^\n|;&>]+)")
PLACES: Final = ("*.md", "docs/**/*.md", "planner/**/*.py", "planner/**/*.html", "tests/golden/**/*.*")


def texts(*patterns: str) -> Iterator[tuple[Path, str]]:
    for path in (path for pattern in patterns for path in ROOT.glob(pattern)):
        if path.is_file() and path.suffix != ".pyc":
            yield path.relative_to(ROOT), path.read_text(encoding="utf-8")


def printed() -> Iterator[tuple[str, list[str]]]:
    for path, text in texts(*PLACES):
        for found in PRINTED.finditer(text):
            yield f"{path}: {found[0]}", (found[1] or found[2]).rstrip("\\").split()[1:]


def options_of(words: list[str]) -> set[str] | None:
    """Return the options of a command or of a group's member; None if there is no such command."""
    command: Any = LazyCommands().get(words[0])
    if command is not None and hasattr(command, "commands") and len(words) > 1 and words[1][0] != "-":
        command = command.commands.get(words[1])
    if command is None:
        return None
    return {name for one in command.params for name in (*one.opts, *one.secondary_opts)} | set(HELP)


def test_every_printed_command_and_option_exists() -> None:
    wrong, count = [], 0
    for where, words in printed():
        if words[0][0] == "-":
            continue
        count += 1
        known = options_of(words)
        said = {
            word.strip("[]().,'\"").partition("=")[0] for word in words if word.strip("[(").startswith("--")
        }
        if known is None or said - known:
            wrong.append(where)
    assert wrong == []
    assert count > 300


def test_no_document_shows_a_fault_of_the_planner() -> None:
    """An example that was rewritten while the code was broken would stand there as its answer."""
    shown = texts("*.md", "docs/**/*.md", "tests/golden/**/*.*")
    assert [path for path, text in shown if "internal error (" in text] == []


def test_a_command_that_is_asked_alone_has_the_short_help_too() -> None:
    """Its option for help is made once, for whoever asks first: completion does so without the group."""
    for name, command in LazyCommands().items():
        for one in (command, *getattr(command, "commands", {}).values()):
            with one.make_context(name, [], resilient_parsing=True) as context:
                assert set(one.get_help_option_names(context)) == set(HELP), name
