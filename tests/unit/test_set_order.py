"""What follows one order comes out alike in every process: Python draws the order of a set of texts anew."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.cases import every
from tests.helpers import nodes, package_files, walk

ORDERLESS = {"any", "all", "sorted", "set", "frozenset", "len", "min", "max"}
"""What says the same of a set in any order."""


def is_set(node: ast.AST, named: frozenset[str] = frozenset()) -> bool:
    """Return whether an expression makes a set, or has a name that one was given."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return is_set(node.left, named) or is_set(node.right, named)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    return (
        isinstance(node, ast.Set | ast.SetComp)
        or (isinstance(node, ast.Name) and node.id in named)
        or (called and node.func.id in {"set", "frozenset"})
    )


def walks_over_sets(path: Path) -> list[str]:
    """Return the loops of functions that go over a set in its own order."""
    found = []
    for function in nodes(path, ast.FunctionDef):
        inner = list(walk(function))
        given = [one for one in inner if isinstance(one, ast.Assign) and is_set(one.value)]
        named = frozenset(one.id for each in given for one in each.targets if isinstance(one, ast.Name))
        calls = [one for one in inner if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
        free = {id(part) for call in calls if call.func.id in ORDERLESS for part in call.args}
        loops = [one.iter for one in inner if isinstance(one, ast.For)]
        for one in inner:
            if isinstance(one, ast.GeneratorExp | ast.ListComp | ast.DictComp) and id(one) not in free:
                loops += [part.iter for part in one.generators]
        found += [f"{function.name}: {ast.unparse(one)}" for one in loops if is_set(one, named)]
    return found


def test_no_function_goes_over_a_set_in_its_own_order() -> None:
    found = {str(path): walks_over_sets(path) for path in package_files()}
    assert {name: loops for name, loops in found.items() if loops} == {}


@every(
    ("line", "loops"),
    [
        ("for x in {*a, *b}: y += x", 1),
        ("known = set(a)\n    return [x for x in known]", 1),
        ("return {x: 1 for x in set(a) | set(b)}", 1),
        ("return any(x for x in set(a))", 0),
        ("return [x for x in sorted(set(a))]", 0),
    ],
)
def test_loops_over_sets_are_found(line: str, loops: int, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"def f(a, b, y=0):\n    {line}")
    assert len(walks_over_sets(tmp_path / "a.py")) == loops
