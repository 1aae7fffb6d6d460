"""What a shell script would start, and which other script it starts that lies near it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from planner.dataclasses import dataclass, field
from planner.runtimes.imports.places import find_beside
from planner.runtimes.imports.shell_known import slurm_directives


@dataclass(frozen=True)
class ShellScript:
    """What a script would start."""

    commands: tuple[tuple[str, ...], ...]
    """The words of each simple command, expanded; a variable that the script does not set stays
    ``${NAME}``."""
    directives: dict[str, str]
    """What ``#SBATCH`` lines say."""
    doubts: tuple[tuple[str, ...], ...]
    """For each command the variables in it that have several values, by conditions that nobody has tried."""
    texts: tuple[str, ...] = ()
    """Values of variables that are several words, such as a command kept for later; the last first."""
    variables: dict[str, list[str]] = field(default_factory=dict)
    """Values of each variable that the script sets."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Text of each file that it writes from a here-document, or with ``echo``."""

    loops: tuple[str, ...] = ()
    """Variables of loops over several values, of which the first is taken."""

    def cut_off(self, words: Sequence[str]) -> str:
        """Return the option with which the command behind ``words`` begins; nothing where it is a command."""
        behind = (after[0] for one, after in pairwise(self.commands) if one == tuple(words))
        return next((word for word in behind if word.startswith("--")), "")


STARTERS: Final = frozenset({"bash", "sh", "sbatch", "salloc", "srun", "exec", "nohup"})
"""Programs that start a script."""
_SCRIPT: Final = re.compile(r"[^=$]*\.(?:sh|bash|sbatch|slurm|job)")
_EXPORTED: Final = re.compile(r"(?:ALL|NONE)?,?((?:[A-Za-z_]\w*=[^,]*,?)+)")


class Started(NamedTuple):
    """A script that another starts."""

    file: Path
    """Where it lies."""
    directives: Mapping[str, str]
    """Options of ``sbatch`` on the command, which go before the script's own."""
    variables: Mapping[str, str]
    """What it is given: its arguments by number, and what ``--export`` says."""


def started_scripts(script: ShellScript, where: str) -> Iterator[Started]:
    """Yield the scripts that a script starts and that lie near it, the last first."""
    for words in reversed(script.commands):
        name = words[0].rpartition("/")[2]
        starter = name in STARTERS
        place = next((at for at, word in enumerate(words) if _SCRIPT.fullmatch(word)), None)
        if place is None or not (starter or place == 0):
            continue
        file = find_beside(Path(words[place]), Path(where))
        if file is None or file.absolute() == Path(where).absolute():
            continue
        options = slurm_directives(f"#SBATCH {' '.join(words[1:place])}\n") if name == "sbatch" else {}
        given = {str(number): word for number, word in enumerate(words[place + 1 :], start=1)}
        exported = _EXPORTED.fullmatch(options.pop("--export", ""))
        pairs = (pair.partition("=") for pair in (exported[1].strip(",").split(",") if exported else ()))
        yield Started(file, options, given | {key: value for key, _, value in pairs})
