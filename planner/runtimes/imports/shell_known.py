"""What a script's own text tells: Slurm's variables, where it lies, commands that end too early."""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from planner.errors import InputError, Problem
from planner.units import is_whole

NODES: Final = ("--nodes", "-N")
PER_NODE: Final = ("--gpus-per-node", "--gres", "--ntasks-per-node")

_SELF: Final = re.compile(r"\$\{?(?:0|BASH_SOURCE(?:\[0\])?)\}?(?!\w)")
_INNER: Final = re.compile(r"\$\(([^()$]*)\)")
_QUIET: Final = re.compile(r"\s*(?:&>|[12]?>&?)\s*(?:\d|/dev/null)")
_NUMBER: Final = re.compile(r"(?:gpu:)?(?:[A-Za-z]\w*:)?(\d{1,6})")
_NAMED: Final[Mapping[str, re.Pattern[str]]] = {
    "parent": re.compile(r"dirname\s+(?:--\s+)?(\S+)"),
    "itself": re.compile(
        r"(?:realpath|readlink -f|readlink -e)\s+(\S+)|cd\s+(?:--\s+)?(\S+)\s*(?:&&|;)\s*pwd(?: -[LP])?"
    ),
    "name": re.compile(r"basename\s+(\S+)"),
}
MOST_INNER: Final = 6
_WRITTEN: Final = re.compile(r"\s*cat\s*<<-?\s*(['\"]?)(\w+)\1[ \t]*\n(.*\n)?[ \t]*\2\s*", re.DOTALL)
_SIGNS: Final = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*)(?![\w\[]))|\\(?:\n|([$`\\]))")


_DIRECTIVE: Final = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)

PRINTED: Final = re.compile(r"`|\$\((?!\()")
"""What only a shell can tell: the output of a command."""

_PLACEHOLDER: Final = re.compile(r"<([A-Z][^<>\n|;&]*[^\s<>|;&])>")
"""What somebody is to fill in, such as ``<PATH TO gpt-vocab.json>``: no redirection."""


_LEFT_OPEN: Final = re.compile(r"^([ \t]*(?:export[ \t]+)?\w+=)<[a-z][^<>\n]* [^<>\n]*>[ \t]*$", re.MULTILINE)
"""The same as the whole value of a variable: ``DATA=<path to the data>``."""


def plain_text(text: str) -> str:
    """Return a script with the line ends of this system, and a word where something is to be filled in."""
    filled = _LEFT_OPEN.sub(r"\1PLACEHOLDER", text.replace("\r\n", "\n"))
    return _PLACEHOLDER.sub("PLACEHOLDER", filled)


def slurm_directives(text: str) -> dict[str, str]:
    r"""Return the options of a script's ``#SBATCH`` lines, of which one may have several.

    Examples
    --------
    >>> slurm_directives("#SBATCH --nodes=4 -p gpu  # four\n#SBATCH -N8\n#SBATCH --exclusive\n")
    {'--nodes': '4', '-p': 'gpu', '-N': '8', '--exclusive': ''}
    """
    found: dict[str, str] = {}
    for line in _DIRECTIVE.finditer(text):
        last = ""
        for word in line[1].partition(" #")[0].split():
            if word.startswith("--"):
                last, equals, value = word.partition("=")
                found[last], last = value, "" if equals else last
            elif word.startswith("-"):
                found[word[:2]], last = word[2:], "" if word[2:] else word[:2]
            elif last:
                found[last], last = word, ""
    return found


def slurm_variables(directives: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Slurm sets by what the ``#SBATCH`` lines ask for.

    Source: https://slurm.schedmd.com/sbatch.html, output environment variables.

    Examples
    --------
    >>> slurm_variables({"--nodes": "4", "--gres": "gpu:a100:8"})["SLURM_JOB_NUM_NODES"]
    '4'
    """
    said = {name: match[1] for name, text in directives.items() if (match := _NUMBER.fullmatch(text))}
    nodes = next((said[name] for name in NODES if name in said), None)
    ranks = next((said[name] for name in PER_NODE if name in said), None)
    tasks = said.get("--ntasks-per-node")
    found: dict[str, str | None] = dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), nodes)
    found |= dict.fromkeys(("SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"), ranks)
    found["SLURM_NTASKS_PER_NODE"] = tasks
    whole = said.get("--ntasks") or (str(int(nodes) * int(tasks)) if nodes and tasks else None)
    found |= dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), whole)
    return {name: value for name, value in found.items() if value is not None and is_whole(value)}


def here_document(command: str, variable: Callable[[re.Match[str]], str]) -> str | None:
    r"""Return the text that ``cat`` prints of a here-document, which a variable keeps for later; else None.

    Examples
    --------
    >>> here_document("cat <<- END\n run --a \\\n  --b $C \\$D\nEND\n", lambda match: "3")
    ' run --a   --b 3 $D\n'
    """
    written = _WRITTEN.fullmatch(command)
    if written is None:
        return None
    quoted, body = written[1], written[3] or ""
    return body if quoted else document_body(body, variable)


def document_body(body: str, variable: Callable[[re.Match[str]], str]) -> str:
    """Return the text of a here-document whose mark has no quotes: variables and escapes are followed."""
    return _SIGNS.sub(lambda sign: variable(sign) if sign[1] or sign[2] else sign[3] or "", body)


def place_of(command: str, script: str) -> str | None:
    """Return what a command prints that asks only where the script lies, None for any other.

    Examples
    --------
    >>> place_of('cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd', "runs/a/train.sh")
    'runs'
    >>> place_of("hostname", "train.sh")
    """
    text = _SELF.sub(lambda _: script, command.replace('"', "").replace("'", ""))
    for _ in range(MOST_INNER):
        inner = _INNER.search(text)
        if inner is None:
            return _place(text)
        value = _place(inner[1])
        if value is None:
            return None
        text = text[: inner.start()] + value + text[inner.end() :]
    return None


def _place(command: str) -> str | None:
    text = _QUIET.sub("", command).strip()
    if text in ("pwd", "pwd -P", "pwd -L"):
        return "."
    for kind, pattern in _NAMED.items():
        match = pattern.fullmatch(text)
        if match is not None:
            path = next(group for group in match.groups() if group)
            if kind == "itself":
                return os.path.normpath(path)
            return str(Path(path).parent) if kind == "parent" else Path(path).name
    return None


_BROKEN: Final = re.compile(r"^[^#\n]*\S[ \t]+\\[ \t]+\n\s*-{1,2}[A-Za-z]", re.MULTILINE)
"""A line that ends in a backslash and a blank, and an option below it."""


def check_ends(text: str, where: str) -> None:
    """Refuse a command that a blank behind a backslash ends before its options do."""
    if (broken := _BROKEN.search(text)) is not None:
        line = text.count("\n", 0, broken.start()) + 1
        expected = "a backslash alone: the command ends here, without the options below"
        raise InputError(Problem(f"{where}:{line}", "a blank behind the backslash", expected))
