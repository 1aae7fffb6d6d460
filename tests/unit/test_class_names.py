"""One meaning for each noun: a public class has its name alone."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.helpers import ROOT


def test_a_public_class_name_is_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
