"""The package holds what commands, the API and the notebook reach; what only tests use stands in tests."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.helpers import ROOT, parsed_text, walk

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
    for node in walk(parsed_text(source)):
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


PROVENANCE = {"planner.runtimes.training_run.SOURCES"}
"""Where numbers are from, which pages name and no code reads."""

FOUND_BY_NAME = {"ENTRY", "SHARED", "__all__", "__getattr__", "__dir__"}
"""What Python and registries look up."""


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """Return the functions, classes and constants of a module, but those that a decorator hands on."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if not any(isinstance(one, ast.Call) for one in node.decorator_list) or node.name[0] == "_":
                found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name):
                found[target.id] = node
    return {name: node for name, node in found.items() if name not in FOUND_BY_NAME}


def mentions(tree: ast.AST) -> set[str]:
    """Return what code names: plain names, members of imported modules, and ``module:name`` in texts."""
    names = set()
    for node in walk(tree):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            names |= {node.value, node.value.rpartition(":")[2]}
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.name for alias in node.names}
    return names


def unused(sources: Mapping[str, str], doors: tuple[str, ...]) -> set[str]:
    """Return definitions that no module names, their own included; what doors define is for users."""
    named_by: dict[str, list[tuple[ast.stmt, set[str]]]] = {
        module: [(node, mentions(node)) for node in parsed_text(source).body]
        for module, source in sources.items()
    }
    modules_with = Counter(
        name for parts in named_by.values() for name in set().union(*(names for _, names in parts))
    )
    found = set()
    for module, parts in named_by.items():
        for name, node in defined([node for node, _ in parts]).items() if module not in doors else ():
            own = [other for other, names in parts if name in names]
            if modules_with[name] - bool(own) == 0 and all(other is node for other in own):
                found.add(f"{module}.{name}")
    return found


def test_every_definition_is_used_by_the_package_itself() -> None:
    assert unused(modules(ROOT / "planner"), DOORS) - PROVENANCE == set()


def test_a_function_that_only_a_test_calls_is_found() -> None:
    sources = {
        "p": "from p.one import two",
        "p.one": """LEFT = 1
def two():
    return four()
def three():
    return three()
def four():
    return 4
""",
    }
    assert unused(sources, ()) == {"p.one.LEFT", "p.one.three"}


def test_what_readers_share_asks_no_runtime() -> None:
    """Readers live beside their runtime; the table of formats and the lists of programs alone know all."""
    sources = {name: source for name, source in modules(ROOT / "planner").items() if ".imports" in name}
    folders = {path.name for path in (ROOT / "planner" / "runtimes").iterdir() if (path / "reading").is_dir()}
    assert len(folders) == 7
    tables = {"planner.runtimes.imports.formats", "planner.runtimes.imports.command_line"}
    asking = {
        name
        for name, source in sources.items()
        if any(found.split(".")[2:3] == [folder] for found in named(source) for folder in folders)
    }
    assert asking == tables
