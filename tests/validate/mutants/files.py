"""Launch files as named values that can be set, added and taken out: flags, trees and Python's keywords."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import yaml

Value = bool | int | float | str | list[Any] | None


class LaunchFile(Protocol):
    """The values of one file, by name."""

    def values(self) -> dict[str, Value]: ...

    def put(self, name: str, value: Value) -> None: ...

    def drop(self, name: str) -> None: ...

    def text(self) -> str: ...


def launch_file(path: Path) -> LaunchFile:
    """Return the values of a file by what its ending says of it."""
    kinds: dict[str, type[Flags | Tree | Keywords]] = {".sh": Flags, ".py": Keywords}
    return kinds.get(path.suffix, Tree)(path.read_text(encoding="utf-8"))


class Flags:
    """The arguments of a script, one a line, that no variable of the user decides."""

    LINE = re.compile(r"^  (--[\w.-]+)(?: ([^$\"]+))?$")

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()

    def _places(self) -> dict[str, int]:
        found = ((self.LINE.match(line), at) for at, line in enumerate(self.lines))
        return {match[1]: at for match, at in found if match}

    def values(self) -> dict[str, Value]:
        lines = {name: self.lines[at].strip() for name, at in self._places().items()}
        return {name: _read(line.removeprefix(name).strip()) for name, line in lines.items()}

    def put(self, name: str, value: Value) -> None:
        places = self._places()
        line = f"  {name}" if value is True else f"  {name} {shlex.quote(str(value))}"
        if name in places:
            self.lines[places[name]] = line
        else:
            self.lines.insert(max(places.values()) + 1, line)

    def drop(self, name: str) -> None:
        del self.lines[self._places()[name]]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def _read(word: str) -> Value:
    """Return what stands behind a flag: true where nothing does."""
    if not word:
        return True
    plain = shlex.split(word)[0]
    try:
        number = float(plain)
    except ValueError:
        return plain
    return int(plain) if plain.lstrip("-").isdigit() else number


class Tree:
    """The leaves of a YAML or JSON file, by their path."""

    def __init__(self, text: str) -> None:
        self.json = text.lstrip().startswith("{")
        self.tree = json.loads(text) if self.json else yaml.safe_load(text)

    def values(self) -> dict[str, Value]:
        return dict(self._leaves(self.tree, ""))

    def _leaves(self, tree: dict[str, Any], above: str) -> Iterator[tuple[str, Value]]:
        for key, value in tree.items():
            name = f"{above}{key}"
            if isinstance(value, dict):
                yield from self._leaves(value, f"{name}.")
            elif not (isinstance(value, list) and any(isinstance(part, dict) for part in value)):
                yield name, value

    def put(self, name: str, value: Value) -> None:
        *sections, key = name.split(".")
        at = self.tree
        for section in sections:
            if not isinstance(at.get(section), dict):
                at[section] = {}
            at = at[section]
        at[key] = value

    def drop(self, name: str) -> None:
        *sections, key = name.split(".")
        at = self.tree
        for section in sections:
            at = at[section]
        del at[key]

    def text(self) -> str:
        return json.dumps(self.tree, indent=2) if self.json else yaml.safe_dump(self.tree, sort_keys=False)


class Keywords:
    """Plain values that a Python file hands to its calls as keywords, by the name of the call."""

    def __init__(self, text: str) -> None:
        self.tree = ast.parse(text)
        self.calls = {ast.unparse(node.func): node for node in self._calls()}

    def _calls(self) -> Iterator[ast.Call]:
        inside = [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]
        whole = next((node for node in inside if node.name == "build_config"), None)
        for node in ast.walk(whole or self.tree):
            if isinstance(node, ast.Call) and node.keywords:
                yield node

    def values(self) -> dict[str, Value]:
        found = {}
        for name, call in self.calls.items():
            for keyword in call.keywords:
                try:
                    found[f"{name}.{keyword.arg}"] = ast.literal_eval(keyword.value)
                except ValueError:
                    continue
        return found

    def put(self, name: str, value: Value) -> None:
        call, _, key = name.rpartition(".")
        said = ast.parse(repr(value), mode="eval").body
        if call not in self.calls:
            return
        for keyword in self.calls[call].keywords:
            if keyword.arg == key:
                keyword.value = said
                return
        self.calls[call].keywords.append(ast.keyword(arg=key, value=said))

    def drop(self, name: str) -> None:
        call, _, key = name.rpartition(".")
        keywords = self.calls[call].keywords
        self.calls[call].keywords = [keyword for keyword in keywords if keyword.arg != key]

    def text(self) -> str:
        return ast.unparse(ast.fix_missing_locations(self.tree)) + "\n"
