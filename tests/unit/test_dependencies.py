"""What the installed package imports is what it declares: nothing leans on another package's dependency."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator

from tests.helpers import ROOT

DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Modules whose distribution has another name."""


def foreign(source: str) -> Iterator[str]:
    """Yield the distributions outside the standard library and the package whose modules a text imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        tops = {name.partition(".")[0] for name in names}
        for name in tops - set(sys.stdlib_module_names) - {"planner"}:
            yield DISTRIBUTIONS.get(name, name).replace("_", "-")


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (name for extra in project["optional-dependencies"].values() for name in extra)
    declared = {re.split(r"[<>=!~;\[ ]", line)[0].lower() for line in (*project["dependencies"], *extras)}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "planner").rglob("*.py")
        for name in foreign(path.read_text(encoding="utf-8"))
        if name not in declared
    }
    assert not found


def test_an_undeclared_package_is_found() -> None:
    assert set(foreign("import click\nfrom yaml import safe_load\nimport os")) == {"click", "pyyaml"}
