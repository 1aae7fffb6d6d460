"""Shell text in which nothing but the user's variables is ever expanded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from planner.launchers._family import VARIABLES, Settings
from planner.runtimes._family import Command

REFERENCE: Final = re.compile(r"\$\{(" + "|".join([*VARIABLES, "HERE"]) + r")\}")
"""A user's variable, or the folder of the files, inside an argument."""

LONGEST_NAME: Final = 60


def quoted(part: str) -> str:
    r"""Return one argument as one shell word; references to the user's variables alone are expanded.

    Examples
    --------
    >>> quoted("a b"), quoted("${OUTPUT_DIR}/run 1"), quoted("$(id)")
    ("'a b'", '"${OUTPUT_DIR}"\'/run 1\'', "'$(id)'")
    """
    if not part:
        return "''"
    pieces = REFERENCE.split(part)
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


def placed(command: Command) -> tuple[str, ...]:
    """Return what torchrun starts; a part that names one of the command's files is found in their folder."""
    files = command.files or {}
    parts = (f"${{HERE}}/{part}" if part in files else part for part in command.program)
    return (*(("-m",) if command.module else ()), *parts)


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


def training_block(command: Command) -> str:
    """Return the array ``training``: the program and its arguments."""
    return f"training=(\n{argument_lines(placed(command))})\n"


def variable_block(needs: Iterable[str], optional: Iterable[str] = ()) -> str:
    """Return the head of a script: the user's variables, and one sentence where one of them is unset."""
    needs = tuple(dict.fromkeys(needs))
    names = tuple(dict.fromkeys((*needs, *optional)))
    return "".join(_variable(name, name in needs) for name in names) + (_check(needs) if needs else "")


def _variable(name: str, needed: bool) -> str:
    return f"export {name}=${{{name}:-}}  # {VARIABLES[name]}{'' if needed else ', if any'}\n"


def _check(needs: tuple[str, ...]) -> str:
    meanings = "".join(f"    {name}) meaning={shlex.quote(VARIABLES[name])} ;;\n" for name in needs)
    return (
        f"for name in {' '.join(needs)}; do\n"
        '  if [[ -n "${!name}" ]]; then continue; fi\n'
        f'  case "${{name}}" in\n{meanings}  esac\n'
        '  echo "Set the variable ${name} to ${meaning} before starting this script." >&2\n'
        "  exit 2\n"
        "done\n"
    )


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


def head(settings: Settings, start: str) -> str:
    """Return the first lines of a script: what it starts, with what, and how."""
    return "#!/usr/bin/env bash\n" + comment(f"{settings.title}\n{start}")
