"""One meaning for each noun: a public class has its name alone, and a limit that several files share."""

from __future__ import annotations

import ast
from collections import defaultdict

from tests.helpers import ROOT, parsed


def test_a_public_class_name_is_unique() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_a_limit_that_several_files_share_is_unique() -> None:
    """Limits of one file alone may have the names that others have: nobody else reads them."""
    places: dict[str, list[str]] = defaultdict(list)
    shared: set[str] = set()
    for path in sorted((ROOT / "planner").rglob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.ImportFrom):
                shared.update(name.name for name in node.names)
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                if name.startswith(("MOST", "MAX", "FEWEST", "LEAST")):
                    places[name].append(str(path.relative_to(ROOT)))
    assert {name: places[name] for name in shared if len(places[name]) > 1} == {}
