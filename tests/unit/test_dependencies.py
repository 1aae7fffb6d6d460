"""What the installed package imports is what it declares: nothing leans on another package's dependency."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.helpers import ROOT, nodes, package_files

DISTRIBUTIONS = {"yaml": "pyyaml"}
"""Modules whose distribution has another name."""


def foreign(path: Path) -> Iterator[str]:
    """Yield the distributions outside the standard library and the package whose modules a file imports."""
    for node in nodes(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module] if node.level == 0 else []
        tops = {name.partition(".")[0] for name in names}
        for name in tops - set(sys.stdlib_module_names) - {"planner"}:
            yield DISTRIBUTIONS.get(name, name).replace("_", "-")


def test_every_imported_package_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (name for extra in project["optional-dependencies"].values() for name in extra)
    declared = {re.split(r"[<>=!~;\[ ]", line)[0].lower() for line in (*project["dependencies"], *extras)}
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in package_files()
        for name in foreign(path)
        if name not in declared
    }
    assert not found


def test_an_undeclared_package_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import click\nfrom yaml import safe_load\nimport os")
    assert set(foreign(tmp_path / "a.py")) == {"click", "pyyaml"}
