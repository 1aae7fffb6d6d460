"""The reference of the command line is what its help says; `make golden` rewrites it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from planner.cli.commands import COMMANDS, LazyCommands
from tests.cli.command import planner
from tests.helpers import ROOT

HEAD = """\
# Command line

What `--help` prints, command by command; this page is generated from it. [The
tutorial](../tutorial/first-plan.md) shows the commands at work, the [glossary](../glossary.md) has the words.

Exit codes: 0 done; 1 the request is valid but nothing satisfies it; 2 the input is wrong, told in one message
on standard error; 70 an internal error; 130 interrupted. `PLANNER_DEBUG=1` shows the traceback of an internal
error. Files are written whole or not at all.
"""


def members(name: str) -> list[str]:
    """Return the commands of a group; none of a command that stands alone."""
    found = LazyCommands()[name]
    return list(getattr(found, "commands", {}))


def reference() -> str:
    parts = [HEAD]
    for name in COMMANDS:
        for words in [(name,), *((name, member) for member in members(name))]:
            done = planner(*words, "--help")
            assert (done.code, done.err) == (0, "")
            parts.append(
                f"{'#' * (len(words) + 1)} planner {' '.join(words)}\n\n```text\n{done.out.rstrip()}\n```\n"
            )
    return "\n".join(parts)


def test_the_reference_is_todays_help(golden: Callable[[Path, str], None]) -> None:
    text = reference()
    assert max(map(len, text.split("```text", 1)[1].splitlines())) <= 80
    golden(ROOT / "docs" / "reference" / "cli.md", text)
