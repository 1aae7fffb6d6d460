"""The package holds what commands, the API and the notebook reach; what only tests use stands in tests."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from tests.helpers import ROOT

DOORS = ("planner", "planner.__main__", "planner.cli.app", "planner.api", "planner.notebook")
LOADERS = ("load_family(", "import_module(", "iter_modules(")
"""What reads modules by their place: those beside it, in its own folder."""


def modules(package: Path) -> dict[str, str]:
    """Return the source of each module of a package by its name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path.read_text(encoding="utf-8")
    return found


def named(source: str) -> set[str]:
    """Return all names that a module imports or writes out, members of modules among them."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value.partition(":")[0])
    return names


def unreached(sources: Mapping[str, str], doors: tuple[str, ...]) -> set[str]:
    """Return the modules that no door leads to."""
    seen: set[str] = set()
    queue = [name for name in doors if name in sources]
    while queue:
        name = queue.pop()
        if name in seen:
            continue
        seen.add(name)
        for found in named(sources[name]):
            parts = found.split(".")
            queue += [whole for n in range(len(parts)) if (whole := ".".join(parts[: n + 1])) in sources]
        if any(loader in sources[name] for loader in LOADERS):
            folder = (
                name if any(other.startswith(f"{name}.") for other in sources) else name.rpartition(".")[0]
            )
            queue += [other for other in sources if other.rpartition(".")[0] == folder]
    return set(sources) - seen


def test_every_module_is_reached_from_a_command_the_api_or_the_notebook() -> None:
    assert unreached(modules(ROOT / "planner"), DOORS) == set()


def test_a_module_that_only_a_test_imports_is_found() -> None:
    sources = {
        "p": "",
        "p.cli": "from p.one import Two",
        "p.one": "def late():\n    import p.family",
        "p.family": "load_family(here, Entry)",
        "p.family.member": "",
        "p.lab": "import p.one",
    }
    assert unreached(sources, ("p.cli",)) == {"p.lab"}
