"""Where the data lie that ship with the planner, and which file a name means."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from planner.errors import InputError, Problem, nearest

W = TypeVar("W", bound=Hashable)

_ALIASES = re.compile(r"^aliases: *\[(.*)\]", re.MULTILINE)


@cache
def data_folder(name: str) -> Path:
    """Return the folder of shipped data called ``name``: in the installed package, or beside its source.

    Raises `FileNotFoundError` if neither is there, which means a broken installation.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "data" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"{name} is missing from the installation of planner")


@cache
def names_and_aliases(folder: Path) -> dict[str, Path]:
    """Return the file of each name and alias, in lower case, of the YAML files in ``folder``.

    A file's name is its stem. Aliases come from a scan for the line ``aliases: [...]``, so that the
    index of a hundred files costs no more than reading them.
    """
    index: dict[str, Path] = {}
    for path in sorted(folder.glob("*.yaml")):
        found = _ALIASES.search(path.read_text(encoding="utf-8"))
        words = found[1].split(",") if found else []
        index |= {word.strip(" \"'").lower(): path for word in [path.stem, *words] if word.strip()}
    return index


@cache
def by_words(folder: Path, words_of: Callable[[str], W]) -> Mapping[W, frozenset[Path]]:
    """Return the files whose names or aliases have the same words, by these."""
    index: dict[W, set[Path]] = defaultdict(set)
    for name, path in names_and_aliases(folder).items():
        index[words_of(name)].add(path)
    return {words: frozenset(paths) for words, paths in index.items()}


def named_file(text: str, folder: Path) -> Path | None:
    """Return the file in ``folder`` whose name or alias a text is in any case; None where there is none."""
    word = text.strip().lower()
    own = folder / f"{word}.yaml"
    if re.fullmatch(r"[a-z\d_.-]{1,99}", word, re.ASCII) and own.is_file():
        return own
    index = names_and_aliases(folder)
    return index.get(word) or index.get("-".join(word.split()))


def find_file(text: str, folder: Path, kind: str) -> Path:
    """Return the file that ``text`` means: a name or alias in ``folder``, whatever its case, or a path.

    Raises `InputError` if it is neither; the message has the nearest names.
    """
    known = named_file(text, folder)
    if known is not None:
        return known
    index, word = names_and_aliases(folder), text.strip().lower()
    try:
        path = Path(text).expanduser()
        if word and path.exists():
            return path
    except (OSError, RuntimeError, ValueError):
        pass
    if re.search(r"\.(ya?ml|json)$|^[.~]?/", word):
        raise InputError(Problem(kind, repr(text[:200]), f"a file that exists, or a {kind} by its name"))
    what = dict.fromkeys(("hardware", "cluster"), "cluster or an accelerator").get(kind, kind)
    expected = f"a {what} that ships with the planner ({len(set(index.values()))} are listed), or a path"
    raise InputError(Problem(kind, repr(text[:200]), expected, nearest(text[:200], index)))
