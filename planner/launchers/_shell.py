"""Shell text in which nothing but the user's variables is ever expanded."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Final

from planner.launchers._family import VARIABLES, Settings

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
    words = [
        f'"${{{piece}}}"' if index % 2 else shlex.quote(piece) for index, piece in enumerate(pieces) if piece
    ]
    return "".join(words)


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


def exports(environment: Mapping[str, str]) -> str:
    """Return the lines that export ``environment``."""
    return "".join(f"export {name}={quoted(value)}\n" for name, value in environment.items())


def variable_block(needs: Iterable[str], optional: Iterable[str] = ()) -> str:
    """Return the head of a script: the user's variables, and one sentence where one of them is unset."""
    needs, optional = tuple(needs), tuple(optional)
    names = [*needs, *(name for name in optional if name not in needs)]
    if not names:
        return ""
    width = max(len(f"{name}=${{{name}:-}}") for name in names)
    lines = [
        f"{f'{name}=${{{name}:-}}':<{width}}  # {VARIABLES[name]}{'' if name in needs else ', if any'}\n"
        for name in names
    ]
    return "".join(lines) + (_check(needs) if needs else "")


def _check(needs: tuple[str, ...]) -> str:
    cases = "".join(f"    {name}) meaning={shlex.quote(VARIABLES[name])} ;;\n" for name in needs)
    return (
        f"for name in {' '.join(needs)}; do\n"
        '  if [[ -n "${!name}" ]]; then continue; fi\n'
        '  case "${name}" in\n' + cases + "  esac\n"
        '  echo "Set the variable ${name} to ${meaning} before starting this script." >&2\n'
        "  exit 2\n"
        "done\n"
    )


def head(settings: Settings, purpose: str) -> str:
    """Return the first lines of a script: what it starts, with what, and how."""
    return "#!/usr/bin/env bash\n" + comment(f"{settings.title}\n{purpose}")
