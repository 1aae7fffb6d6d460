"""Equations that documents show are those that prices call."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = sorted(
    {
        found
        for page in (ROOT / "docs").rglob("*.md")
        for found in re.findall(r"<!-- equation: (\S+) -->", page.read_text(encoding="utf-8"))
    }
)
PRINTS = "planner.report.explain"
"""Modules that name and print equations, and call none for a figure."""
FORMULAS = "planner.formulas."


@cache
def trees() -> dict[str, ast.Module]:
    """Return the code of everything that computes, by module."""
    found = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): ast.parse(path.read_text(encoding="utf-8"))
        for path in (ROOT / "planner").rglob("*.py")
    }
    return {module: tree for module, tree in found.items() if not module.startswith(PRINTS)}


def uses(tree: ast.AST, names: set[str]) -> bool:
    """Whether code uses one of the names other than to import or define it."""
    return any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(tree))


def names_in(module: str, equation: str) -> set[str]:
    """Return the names that a function has in a module: those it is imported as, or its own."""
    home, _, name = equation.rpartition(".")
    imports = (node for node in ast.walk(trees()[module]) if isinstance(node, ast.ImportFrom))
    aliases = (alias for node in imports if node.module == home for alias in node.names)
    return {one.asname or one.name for one in aliases if one.name == name} | (
        {name} if module == home else set()
    )


def is_priced(equation: str, seen: frozenset[str] = frozenset()) -> bool:
    """Whether code outside ``formulas`` uses a function, or a formula does that it uses."""
    for module, tree in trees().items():
        names = names_in(module, equation)
        if not names:
            continue
        if not module.startswith(FORMULAS):
            if uses(tree, names):
                return True
            continue
        kinds = (ast.FunctionDef, ast.ClassDef)
        others = (node for node in tree.body if isinstance(node, kinds) and uses(node, names))
        callers = {f"{module}.{node.name}" for node in others} - seen - {equation}
        if any(is_priced(caller, seen | {equation}) for caller in callers):
            return True
    return False


def test_documents_show_equations() -> None:
    assert len(SHOWN) > 20


@pytest.mark.parametrize("equation", SHOWN)
def test_every_shown_equation_is_called_by_the_code(equation: str) -> None:
    assert is_priced(equation)


def test_an_equation_that_nothing_calls_is_found() -> None:
    assert not is_priced("planner.formulas.pipeline.no_such_function")
    assert not is_priced("planner.techniques.sharding._family.state_bytes")
