"""Equations that documents show are those that prices call."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.cases import every
from tests.helpers import parsed, walk

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
        ".".join(path.relative_to(ROOT).with_suffix("").parts): parsed(path)
        for path in (ROOT / "planner").rglob("*.py")
    }
    return {module: tree for module, tree in found.items() if not module.startswith(PRINTS)}


@cache
def used(tree: ast.AST) -> frozenset[str]:
    """Return the names that code uses other than to import or define them."""
    return frozenset(node.id for node in walk(tree) if isinstance(node, ast.Name))


@cache
def imported(module: str) -> tuple[tuple[str | None, ast.alias], ...]:
    """Return what a module imports by name, each with where it is from."""
    imports = (node for node in walk(trees()[module]) if isinstance(node, ast.ImportFrom))
    return tuple((node.module, alias) for node in imports for alias in node.names)


def names_in(module: str, equation: str) -> set[str]:
    """Return the names that a function has in a module: those it is imported as, or its own."""
    home, _, name = equation.rpartition(".")
    aliases = (alias for origin, alias in imported(module) if origin == home)
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
            if names & used(tree):
                return True
            continue
        kinds = (ast.FunctionDef, ast.ClassDef)
        others = (node for node in tree.body if isinstance(node, kinds) and names & used(node))
        callers = {f"{module}.{node.name}" for node in others} - seen - {equation}
        if any(is_priced(caller, seen | {equation}) for caller in callers):
            return True
    return False


def test_documents_show_equations() -> None:
    assert len(SHOWN) > 20


@every("equation", SHOWN)
def test_every_shown_equation_is_called_by_the_code(equation: str) -> None:
    assert is_priced(equation)


def test_an_equation_that_nothing_calls_is_found() -> None:
    assert not is_priced("planner.formulas.pipeline.no_such_function")
    assert not is_priced("planner.techniques.sharding.family.state_bytes")
