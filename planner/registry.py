"""One table for each family of techniques: a folder of files, each with one ``ENTRY``.

Adding a member is adding a file. Nothing registers itself on import, and nobody keeps a list.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, TypeVar

from planner.errors import InputError, Problem, nearest


class Entry(Protocol):
    """What every member of a family has: a unique name, and other spellings of it."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> tuple[str, ...]: ...


E = TypeVar("E", bound=Entry)


def member_modules(package: str) -> list[str]:
    """Return the names of the modules of a family's package that are its members.

    Its module ``family`` has the record that entries are; that one, those listed in the folder's ``SHARED``,
    and those whose name starts with an underscore are no members.
    """
    folder = importlib.import_module(package)
    shared = {"family", *getattr(folder, "SHARED", ())}
    found = (entry for path in folder.__path__ for entry in Path(path).iterdir())
    names = (entry.stem for entry in found if entry.suffix == ".py" or (entry / "__init__.py").is_file())
    return sorted(name for name in names if name not in shared and not name.startswith("_"))


def load_family(package: str, kind: type[E]) -> Mapping[str, E]:
    """Read the ``ENTRY`` of every member of ``package`` into a read-only table.

    Parameters
    ----------
    package : str
        The family's, by its whole name; its own module is being imported as a rule.
    kind : type
        The record type that each ``ENTRY`` must have.

    Returns
    -------
    Mapping[str, kind]
        Name to entry, in the order of the names.

    Raises
    ------
    TypeError
        If an ``ENTRY`` is missing, of another type, or its name is taken.
    """
    table: dict[str, E] = {}
    for name in member_modules(package):
        entry = getattr(importlib.import_module(f"{package}.{name}"), "ENTRY", None)
        if not isinstance(entry, kind):
            raise TypeError(f"{package}.{name}: ENTRY is not a {kind.__name__}")
        if entry.name in table:
            raise TypeError(f"{package}.{name}: the name {entry.name} is taken")
        table[entry.name] = entry
    return MappingProxyType(dict(sorted(table.items())))


def find(table: Mapping[str, E], name: str, where: str) -> E:
    """Look ``name`` up by name or alias, whatever its case.

    Raises
    ------
    InputError
        If nothing has that name; the message lists what there is and the nearest spelling.
    """
    if name in table:
        return table[name]
    spellings = {
        spelling.lower(): entry for entry in table.values() for spelling in (*entry.aliases, entry.name)
    }
    if name.lower() in spellings:
        return spellings[name.lower()]
    raise InputError(Problem(where, repr(name), f"one of {', '.join(table)}", nearest(name, spellings)))
