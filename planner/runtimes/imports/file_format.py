"""What a reader of one kind of file is given, and what it must say of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from planner.dataclasses import dataclass
from planner.inputs.bounded import is_file
from planner.inputs.yaml_file import read_text
from planner.runtimes.imports.command_line import Training
from planner.runtimes.imports.sheet import Imported


@dataclass(frozen=True)
class Source:
    """One configuration file, parsed and never run."""

    path: Path
    """Where it lies."""
    text: str
    """What it holds."""
    tree: Mapping[str, Any]
    """The same as nested tables: of JSON, TOML and YAML; empty for Python."""
    starter: Training | None = None
    """The command that starts it, of the script that led to it or of one beside it."""
    vocab: int | None = None
    """Tokens of the vocabulary, as the user says them."""

    @property
    def where(self) -> str:
        """Return the file's name, for messages."""
        return str(self.path)


@dataclass(frozen=True)
class FileFormat:
    """One kind of configuration file."""

    title: str
    """What it is called in a message, with its article."""
    suffixes: tuple[str, ...]
    """Endings of its files, in lower case."""
    fits: Callable[[Source], bool]
    """Whether a source is one; asked in the table's order."""
    read: Callable[[Source], Imported]
    """What a source says, its faults among it."""


def beside(path: Path, name: str) -> str:
    """Return the text of a file in the same folder; nothing where there is none."""
    other = path.with_name(name) if name.strip("./\\ ") and "/" not in name and "\\" not in name else path
    return read_text(other) if other != path and is_file(other) else ""
