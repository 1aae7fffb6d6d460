"""Read a YAML or JSON file that somebody else wrote: bounded, strict, every fault named with its place.

YAML is read as version 1.2 has it, not 1.1: ``1e9`` is a number, ``no`` and ``on`` are words, a date is text.
"""

from __future__ import annotations

import json
import marshal
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Final

import yaml

from planner.errors import InputError, Problem
from planner.inputs.bounded import STANDARD_INPUT, TEXT_BYTES, decoded, read_bytes

MAX_NODES: Final = 200_000
MAX_DEPTH: Final = 40

TWICE: Final = " twice"

KEPT_TEXTS: Final = 512
"""Texts whose content is kept for the next reader, [-]; then all are forgotten."""

KEPT_LETTERS: Final = 100_000
"""Length of the longest text that is kept. [-]"""

_READ: Final[dict[str, bytes]] = {}
"""What texts hold, packed, so that nobody who reads one can change what the next reader gets."""

_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """The safe loader with the scalars of YAML 1.2's core schema."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_NOT_FINITE = r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", rf"{_NUMBER}|{_NOT_FINITE}", "-+.0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first))


class _Writer(yaml.SafeDumper):
    """The safe dumper, which also quotes a text that this reader would take for a number."""


_Writer.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(rf"^(?:{_NUMBER})$"), list("-+.0123456789")
)


def yaml_text(document: object) -> str:
    """Return a document as YAML that `parse_yaml` reads as it was."""
    return yaml.dump(document, Dumper=_Writer, sort_keys=False, width=100)


def _decimal(loader: Any, node: Any) -> int:
    """Read an integer without YAML 1.1's octal and base-60 forms: ``010`` is ten."""
    text = loader.construct_scalar(node)
    return int(text, 16) if "x" in text else int(text)


def _float(loader: Any, node: Any) -> float:
    return float(loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan"))


_Loader.add_constructor("tag:yaml.org,2002:int", _decimal)
_Loader.add_constructor("tag:yaml.org,2002:float", _float)


def read_text(path: Path, limit: int = TEXT_BYTES) -> str:
    """Return the text of a file, a pipe or a device, ``-`` for standard input: of at most ``limit`` bytes.

    Raises `InputError` if it is missing, a folder, unreadable, too large, or not UTF-8.
    """
    return decoded(read_bytes(path, limit), str(STANDARD_INPUT if str(path) == "-" else path))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping that a YAML file holds.

    Raises `InputError` if it cannot be read, is not YAML, repeats a key, indents with tabs, nests or expands
    beyond `MAX_DEPTH` or `MAX_NODES`, has a tag, a NaN or an infinity, or is no mapping at the top.
    """
    return parse_yaml(read_text(path), str(path))


def read_fitted(path: Path) -> dict[str, Any]:
    """Return the mapping of a file that a fit wrote and the tests judge, which no start judges again."""
    text = read_text(path)
    return _kept(text, lambda: yaml.load(text, _Loader))


def parse_yaml(text: str, where: str) -> dict[str, Any]:
    """Return the mapping that YAML ``text`` holds; ``where`` names it in messages. Raises as `read_yaml`.

    A text that was read before is not judged again; each caller has a mapping of its own.
    """
    return _kept(text, lambda: _parsed(text, where))


def _kept(text: str, parsed: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a copy of what a text holds, which is parsed where it was not read before."""
    known = _READ.get(text)
    if known is None:
        known = marshal.dumps(parsed())
        if len(text) <= KEPT_LETTERS:
            if len(_READ) >= KEPT_TEXTS:
                _READ.clear()
            _READ[text] = known
    table: dict[str, Any] = marshal.loads(known)
    return table


def parse_repeating(text: str, where: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return what `parse_yaml` does of a text whose keys may repeat, the last counting, and these keys."""
    try:
        return parse_yaml(text, where), ()
    except InputError as error:
        twice = tuple(problem.found.removesuffix(TWICE) for problem in error.problems)
        if not all(problem.found.endswith(TWICE) for problem in error.problems):
            raise
    return _parsed(text, where, repeats=True), twice


def _parsed(text: str, where: str, repeats: bool = False) -> dict[str, Any]:
    problems = list(_tabs(text, where))
    if problems:
        raise InputError(problems)
    try:
        problems = _Scan(where).problems(text)
        problems = [one for one in problems if not (repeats and one.found.endswith(TWICE))]
        value = None if problems else yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InputError(_syntax(error, where)) from None
    except ValueError as error:
        raise InputError(Problem(where, str(error), "numbers of a sensible size")) from None
    if problems:
        raise InputError(problems)
    return _finite_mapping(value, where)


def read_json(path: Path) -> dict[str, Any]:
    """Return the object that a JSON file holds; NaN and infinities are kept, for its reader to judge.

    Raises `InputError` if it cannot be read, is not JSON, repeats a key, nests too deeply, or is no object at
    the top.
    """
    return parse_json(read_text(path), str(path))


def parse_json(text: str, where: str) -> dict[str, Any]:
    """Return the object that JSON ``text`` holds; ``where`` names it in messages. Raises as `read_json`."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            counted = Counter(name for name, _ in pairs)
            twice = sorted(name for name, count in counted.items() if count > 1)
            raise InputError([Problem(where, f"key {name!r} twice", "each key once") for name in twice])
        return table

    try:
        value = json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}"
        raise InputError(Problem(place, f"no JSON ({error.msg})", "a JSON object")) from None
    except RecursionError:
        raise InputError(Problem(where, "nesting without end", "a JSON object of few levels")) from None
    except ValueError as error:
        raise InputError(Problem(where, str(error), "numbers of a sensible size")) from None
    return _mapping(value, where)


def _tabs(text: str, where: str) -> Iterator[Problem]:
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line[: len(line) - len(line.lstrip())]:
            yield Problem(f"{where}:{number}", "a tab in the indentation", "spaces")


def _syntax(error: yaml.YAMLError, where: str) -> Problem:
    mark = getattr(error, "problem_mark", None)
    place = f"{where}:{mark.line + 1}" if mark else where
    found = getattr(error, "problem", None) or str(error).splitlines()[0]
    return Problem(place, f"no YAML ({found})", "a YAML mapping")


def _mapping(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        found = "nothing" if value is None else f"a {type(value).__name__}"
        raise InputError(Problem(where, found, "a mapping at the top"))
    table: dict[str, Any] = value
    return table


ENDLESS: Final = ("grad_norm_skip_threshold",)
"""Keys of launch files that a runner writes as infinite: no limit at all."""


def _finite_mapping(value: Any, where: str) -> dict[str, Any]:
    table = _mapping(value, where)
    problems = [
        Problem(f"{where}: {place}", str(leaf), "a finite number")
        for place, leaf in _leaves(table)
        if isinstance(leaf, float) and not math.isfinite(leaf) and not place.endswith(ENDLESS)
    ]
    if problems:
        raise InputError(problems)
    return table


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{place}[{number}]")
    else:
        yield place, value


class _Open:
    """A collection whose end the scan has not met yet."""

    def __init__(self, anchor: str | None, mapping: bool) -> None:
        self.anchor, self.mapping = anchor, mapping
        self.size, self.children = 1, 0
        self.keys: set[str] = set()


class _Scan:
    """One pass over the events of a YAML text, before anything is built from them.

    It holds no more than the open collections, so that a text made to exhaust memory or stack is
    refused at its first excess.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.found: list[Problem] = []
        self.open: list[_Open] = []
        self.sizes: dict[str, int] = {}
        self.documents = 0

    def problems(self, text: str) -> list[Problem]:
        """Return every fault below syntax; stops at the first that is a danger."""
        for event in yaml.parse(text, _Loader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            try:
                self._event(event, line)
            except OverflowError as danger:
                return [*self.found, Problem(f"{self.where}:{line}", *danger.args)]
        return self.found

    def _event(self, event: yaml.Event, line: int) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise OverflowError("a second document", "one document")
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event, line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)

    def _start(self, event: yaml.CollectionStartEvent, line: int) -> None:
        self._tag(event.tag, line)
        if self.open:
            self.open[-1].children += 1
        self.open.append(_Open(event.anchor, isinstance(event, yaml.MappingStartEvent)))
        if len(self.open) > MAX_DEPTH:
            raise OverflowError(f"more than {MAX_DEPTH} levels", "a flat mapping")

    def _end(self) -> None:
        closed = self.open.pop()
        if closed.anchor:
            self.sizes[closed.anchor] = closed.size
        self._grow(closed.size)

    def _alias(self, event: yaml.AliasEvent) -> None:
        if any(collection.anchor == event.anchor for collection in self.open):
            raise OverflowError(f"*{event.anchor} inside itself", "an alias of something complete")
        self.open[-1].children += 1
        self._grow(self.sizes.get(str(event.anchor), 1))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        self._tag(event.tag, line)
        if event.anchor:
            self.sizes[event.anchor] = 1
        if not self.open:
            return
        parent = self.open[-1]
        if parent.mapping and parent.children % 2 == 0:
            if event.value in parent.keys:
                self._tell(line, f"key {event.value!r}{TWICE}", "each key once")
            parent.keys.add(event.value)
        parent.children += 1
        self._grow(1)

    def _tag(self, tag: str | None, line: int) -> None:
        if tag not in (None, "!"):
            self._tell(line, f"tag {tag}", "plain text, numbers, lists and mappings")

    def _tell(self, line: int, found: str, expected: str) -> None:
        self.found.append(Problem(f"{self.where}:{line}", found, expected))

    def _grow(self, size: int) -> None:
        if self.open:
            self.open[-1].size += size
            if self.open[-1].size > MAX_NODES:
                raise OverflowError(f"more than {MAX_NODES:,} values once expanded", "a smaller file")
