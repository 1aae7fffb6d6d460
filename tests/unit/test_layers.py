"""Imports point down the layers, late ones and those for types alone included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import ROOT

LAYERS = (
    ("__init__", "__main__"),
    ("notebook",),
    ("api", "cli"),
    ("question",),
    ("sweep",),
    ("report", "launchers"),
    ("search", "calibrate", "simulate", "profile"),
    ("cost",),
    ("runtimes",),
    ("techniques",),
    ("rules",),
    ("plan",),
    ("inputs",),
    ("formulas",),
    ("registry", "arguments", "fields", "files", "folders"),
    ("numeric", "units", "errors", "remembered", "shown", "printable", "deferred"),
)
"""Top first; a part may import itself and the parts of lower lines, siblings ignore each other."""

HEIGHT = {part: -line for line, parts in enumerate(LAYERS) for part in parts}


def imported_parts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the part of ``planner`` that each import statement names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            whole = module == "planner"
            names = [f"planner.{alias.name}" for alias in node.names] if whole else [module]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top in {"planner", ""} and rest != "__version__":
                yield node.lineno, rest.split(".")[0] if top else name


def upward_imports(package: Path) -> list[str]:
    """Return every import of ``package`` that does not point down, with its place."""
    faults = []
    for path in sorted(package.rglob("*.py")):
        part = path.relative_to(package).parts[0].removesuffix(".py")
        if part not in HEIGHT:
            faults.append(f"{path}: {part} stands in no layer")
            continue
        for line, other in imported_parts(ast.parse(path.read_text(encoding="utf-8"))):
            if other != part and HEIGHT.get(other, 1) >= HEIGHT[part]:
                faults.append(f"{path}:{line}: {part} imports {other or 'planner'}")
    return faults


def test_imports_point_down() -> None:
    assert upward_imports(ROOT / "planner") == []


def test_imports_stand_at_the_top() -> None:
    """Those inside functions: cycles, and packages that few users reach. The number may only fall."""
    inside = {
        (path, node.lineno)
        for path in (ROOT / "planner").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert len(inside) <= 80


@pytest.mark.parametrize(
    ("file", "statement", "fault"),
    [
        ("cost/step.py", "from planner.search.scan import scan", "cost imports search"),
        ("cost/step.py", "import planner.cli.app", "cost imports cli"),
        ("cost/step.py", "def f():\n    from planner import report", "cost imports report"),
        ("report/tables.py", "from planner.launchers import slurm", "report imports launchers"),
        ("units.py", "from planner.errors import Problem", "units imports errors"),
        ("units.py", "from planner import search", "units imports search"),
        ("inputs/load.py", "import planner", "inputs imports planner"),
        ("inputs/load.py", "from . import model", "inputs imports ."),
        ("helpers/misc.py", "", "helpers stands in no layer"),
    ],
)
def test_an_import_that_points_up_or_aside_is_found(
    tmp_path: Path, file: str, statement: str, fault: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(statement)
    (found,) = upward_imports(tmp_path)
    assert found.endswith(fault)


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("cli/app.py", "from planner import __version__, units\nfrom planner.search import scan"),
        ("cost/step.py", "from planner.cost.memory import stage_bytes\nimport numpy"),
        ("registry.py", "from planner.errors import InputError"),
    ],
)
def test_an_import_that_points_down_is_fine(tmp_path: Path, file: str, statement: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(statement)
    assert upward_imports(tmp_path) == []
