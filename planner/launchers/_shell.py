"""Shell text in which nothing but the user's variables is ever expanded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from planner.launchers.family import LauncherSettings
from planner.runtimes.family import Command
from planner.runtimes.variables import SPREAD, WHOLE

LONGEST_NAME: Final = 60


def quoted(part: str) -> str:
    r"""Return one argument as one shell word; references to the user's variables alone are expanded.

    A part that is the words of a variable becomes the array that `spread_block` makes of it.

    Examples
    --------
    >>> quoted("a b"), quoted("${OUTPUT_DIR}/run 1"), quoted("$(id)")
    ("'a b'", '"${OUTPUT_DIR}"\'/run 1\'', "'$(id)'")
    """
    if not part:
        return "''"
    if words := SPREAD.fullmatch(part):
        return f'"${{{words[1].lower()}_words[@]}}"'
    pieces = WHOLE.split(part)
    return "".join(
        f'"${{{piece}}}"' if index % 2 else _literal(piece) for index, piece in enumerate(pieces) if piece
    )


def _literal(text: str) -> str:
    """Quote text without references; a comma too, which in an array looks like a separator to readers."""
    return f"'{text}'" if "," in text and shlex.quote(text) == text else shlex.quote(text)


def comment(text: str) -> str:
    """Return ``text`` as comment lines, whatever it holds."""
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines() or [""])


def job_name(text: str) -> str:
    """Return ``text`` with letters, digits and dashes alone, as every scheduler takes it.

    Examples
    --------
    >>> job_name("My model; rm -rf $HOME")
    'my-model-rm-rf-home'
    """
    safe = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return safe[:LONGEST_NAME].rstrip("-") or "job"


def argument_lines(parts: Iterable[str], indent: str = "  ") -> str:
    """Return arguments as lines of a bash array, a flag beside its values."""
    lines: list[list[str]] = []
    for part in parts:
        if part.startswith("-") or not lines:
            lines.append([])
        lines[-1].append(quoted(part))
    return "".join(f"{indent}{' '.join(line)}\n" for line in lines)


def placed(command: Command, parts: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return arguments as torchrun takes them; a part that names one of the files is found in their folder.

    Without ``parts`` they are those of both kinds of run, the program first.
    """
    files = command.files or {}
    found = command.program if parts is None else parts
    lead = ("-m",) if parts is None and command.module else ()
    return (*lead, *(f"${{HERE}}/{part}" if part in files else part for part in found))


def whence(command: Command, title: str) -> str:
    """Return from which folder a script is started."""
    own = command.module or command.program[0] in (command.files or {})
    return "from any folder" if own else f"from the root of a {title} checkout"


def environment_block(command: Command) -> str:
    """Return the lines that export the environment, and make Python files beside the script importable."""
    lines = "".join(f"export {name}={quoted(value)}\n" for name, value in command.environment.items())
    importable = any(name.endswith(".py") for name in command.files or {})
    return lines + ('export PYTHONPATH="${HERE}${PYTHONPATH:+:${PYTHONPATH}}"\n' if importable else "")


def here_block(*blocks: str) -> str:
    """Return the line that finds the script's folder, where one of ``blocks`` refers to it."""
    needed = any("${HERE}" in block for block in blocks)
    return 'HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\n' if needed else ""


def file_block(files: Mapping[str, str]) -> str:
    """Return the lines that write the command's files into ``HERE``, for machines that start with none."""
    return (
        'mkdir -p "${HERE}"\n' + "".join(_written(name, text) for name, text in files.items())
        if files
        else ""
    )


def _written(name: str, text: str) -> str:
    mark = "END_OF_FILE"
    while mark in text:
        mark += "_"
    ending = "" if text.endswith("\n") else "\n"
    return f"cat > \"${{HERE}}\"/{quoted(name)} <<'{mark}'\n{text}{ending}{mark}\n"


def head(settings: LauncherSettings, start: str) -> str:
    """Return the first lines of a script: what it starts, with what, and how."""
    return "#!/usr/bin/env bash\n" + comment(f"{settings.title}\n{start}")
