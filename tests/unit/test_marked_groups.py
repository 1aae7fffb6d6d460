"""Groups that need torch, a GPU, Ray or a runner: what they import of the planner is there.

The light tests do not import their files, so that a name that goes would be missed until the group runs.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

from tests.cases import every
from tests.helpers import ROOT

GROUPS = ("gpu", "ray", "torch", "validate")


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of whatever a file imports from the planner, by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "planner":
            yield from ((node.module, one.name) for one in node.names)


@every("group", GROUPS)
def test_what_a_group_imports_of_the_planner_is_there(group: str) -> None:
    asked = {one for path in (ROOT / "tests" / group).rglob("*.py") for one in imported(path)}
    assert asked
    for module, name in sorted(asked):
        if not hasattr(importlib.import_module(module), name):
            importlib.import_module(f"{module}.{name}")
