"""``search --flags``: the runner's own flags of the first plan, on the terminal or in JSON."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final

from planner.launchers.emit import Target, priced_command
from planner.printable import printable

if TYPE_CHECKING:
    from planner.cost.estimate import Estimate
    from planner.runtimes.family import Command

SETTINGS: Final = frozenset({".json", ".yaml", ".yml", ".toml"})
"""Files that hold settings, and no program."""


def flags_of(answer: Estimate, wanted: Target, order: str | None = None) -> dict[str, Any]:
    """Return what the runner is told of a plan: its variables, its words and its files of settings.

    Raises
    ------
    UnsupportedPlan
        If the runner cannot run the plan as it was priced.
    """
    _, command = priced_command(answer.plan, answer.job, wanted, order)
    return {
        "runtime": f"{wanted.runtime.title} {wanted.version}",
        "environment": dict(command.environment),
        "words": [*command.program, *command.closing],
        "files": _settings_files(command),
    }


def _settings_files(command: Command) -> Mapping[str, str]:
    """Return the files that hold what flags do not say; a program alone where it has neither."""
    files = command.files or {}
    found = {name: text for name, text in files.items() if PurePath(name).suffix in SETTINGS}
    flags = any(word.startswith("--") for word in command.program)
    return found if found or flags else files


def print_flags(told: Mapping[str, Any], width: int = 80) -> None:
    """Write the flags as a shell reads them, and the files of settings after their names."""
    lines = ["", f"Flags of plan 1 for {told['runtime']}; --emit DIR writes a script around them:", ""]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in told["environment"].items()]
    lines += _folded(told["words"], width)
    for name, text in told["files"].items():
        lines += ["", f"# {name}", *text.rstrip().splitlines()]
    sys.stdout.write("".join(f"{printable(line)}\n" for line in lines))


def _folded(words: list[str], width: int) -> list[str]:
    r"""Return a command over several lines, an option beside its value.

    Examples
    --------
    >>> _folded(["pretrain.py", "--layers", "32", "--fast"], 20)
    ['pretrain.py \\', '  --layers 32 \\', '  --fast']
    """
    lines: list[str] = []
    for part in _options(words):
        if lines and len(lines) > 1 and len(lines[-1]) + len(part) + 3 <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(f"  {part}" if lines else part)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _options(words: list[str]) -> Iterator[str]:
    """Yield the program, then each option with its values."""
    part: list[str] = []
    for word in words:
        if part and word.startswith("-"):
            yield " ".join(part)
            part = []
        part.append(f'"{word}"' if "${" in word else shlex.quote(word))
    yield " ".join(part)
