"""Imports point down the layers, late ones and those for types alone included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

from tests.cases import every
from tests.helpers import ROOT, nodes, walk

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
    ("dataclasses",),
)
"""Top first; a part may import itself and the parts of lower lines, siblings ignore each other."""

COST_ORDER = ("layer", "memory", "traffic", "step")
"""Packages of ``planner.cost``, the first one first: each imports those before it, but for one way back."""

HEIGHT = {part: -line for line, parts in enumerate(LAYERS) for part in parts}


def imported_parts(path: Path, package: str = "planner") -> Iterator[tuple[int, str]]:
    """Yield the line and the part of ``package`` that each import statement of a file names."""
    for node in nodes(path, ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            module = "." * node.level + (node.module or "")
            whole = module == package
            names = [f"{package}.{alias.name}" for alias in node.names] if whole else [module]
        for name in names:
            name = name.replace(f"{package}.", "planner.", 1)
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
        for line, other in imported_parts(path):
            if other != part and HEIGHT.get(other, 1) >= HEIGHT[part]:
                faults.append(f"{path}:{line}: {part} imports {other or 'planner'}")
    return faults


def test_imports_point_down() -> None:
    assert upward_imports(ROOT / "planner") == []


def test_packages_of_the_price_use_those_before_them() -> None:
    """One way back: layers whose activations lie on the host are priced before the stage that holds them."""
    back = set()
    for path in (ROOT / "planner/cost").rglob("*.py"):
        own = path.parent.name
        for _, other in imported_parts(path, "planner.cost"):
            if own in COST_ORDER and other in COST_ORDER[COST_ORDER.index(own) + 1 :]:
                back.add((f"{own}/{path.stem}", other))
    assert back == {("memory/activation_offload", "step")}


def test_no_modules_import_each_other() -> None:
    """Imports inside functions, deferred ones and those for types alone count too."""
    paths = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path
        for path in (ROOT / "planner").rglob("*.py")
    }
    graph = {name: module_imports(path) & set(paths) for name, path in paths.items()}
    TopologicalSorter(graph).prepare()


def module_imports(path: Path) -> set[str]:
    """Return the modules whose names a file imports, or which it imports whole."""
    found = set()
    for node in nodes(path, ast.ImportFrom):
        found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


COSTLY = ("scipy", "pulp", "ortools", "rich", "jinja2", "markupsafe", "plotly", "importlib.metadata")
"""Packages that few answers need and that take long to import."""


def imports_inside(package: Path) -> list[str]:
    """Return the imports inside functions that could stand at the top, or there under ``with deferred()``.

    A family's folder is imported at once, with every file of it, so commands import one where they need it.
    """
    return [
        f"{path.relative_to(package)}:{node.lineno}: {name}"
        for path in sorted(package.rglob("*.py"))
        for function in nodes(path, ast.FunctionDef, ast.AsyncFunctionDef)
        for node in walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        )
        if not any(f"{name}.".startswith(f"{one}.") for one in COSTLY) and not is_family(package, path, name)
    ]


def names_of(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return the modules that an import statement names."""
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]


def is_family(package: Path, path: Path, name: str) -> bool:
    """Whether a module lies in the folder of a family, to which the file that imports it does not belong."""
    parts = name.split(".")[1:] if name.startswith(f"{package.name}.") else []
    folders = [package.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]
    return any(
        (folder / "__init__.py").is_file()
        and "load_family(" in (folder / "__init__.py").read_text(encoding="utf-8")
        and folder not in path.parents
        for folder in folders
    )


def test_imports_stand_at_the_top() -> None:
    assert imports_inside(ROOT / "planner") == []


def test_an_import_inside_a_function_is_found(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    (package / "cheap").mkdir(parents=True)
    (package / "family").mkdir()
    (package / "family/__init__.py").write_text("MEMBERS = load_family(1)\n")
    (package / "family/one.py").write_text("def f():\n    from pack.family import two\n")
    (package / "cli.py").write_text(
        "def f():\n    import json\n    import scipy.special\n    import rich\n    from pack.cheap import a\n"
        "    from pack.family import MEMBERS\n"
    )
    assert imports_inside(package) == [
        "cli.py:2: json",
        "cli.py:5: pack.cheap",
        "family/one.py:2: pack.family",
    ]


@every(
    ("file", "statement", "fault"),
    [
        ("cost/legal.py", "from planner.search.scan import scan", "cost imports search"),
        ("cost/legal.py", "import planner.cli.app", "cost imports cli"),
        ("cost/legal.py", "def f():\n    from planner import report", "cost imports report"),
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


@every(
    ("file", "statement"),
    [
        ("cli/app.py", "from planner import __version__, units\nfrom planner.search import scan"),
        ("cost/legal.py", "from planner.cost.memory.stage_memory import stage_bytes\nimport numpy"),
        ("registry.py", "from planner.errors import InputError"),
    ],
)
def test_an_import_that_points_down_is_fine(tmp_path: Path, file: str, statement: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(statement)
    assert upward_imports(tmp_path) == []


def private_elsewhere(package: Path) -> list[str]:
    """Return the imports of modules with an underscore from files that do not stand beside them."""
    return [
        f"{path.relative_to(package)} imports {node.module}"
        for path in sorted(package.rglob("*.py"))
        for node in nodes(path, ast.ImportFrom)
        if (node.module or "").startswith("planner.")
        for parts in [[package.name, *(node.module or "").split(".")[1:]]]
        if any(part.startswith("_") for part in parts)
        and path.parent.parts[-len(parts) + 1 :] != tuple(parts[:-1])
    ]


def test_a_module_with_an_underscore_is_imported_by_those_beside_it_alone() -> None:
    assert private_elsewhere(ROOT / "planner") == []


def test_an_import_of_another_folders_own_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "pack" / "one").mkdir(parents=True)
    (tmp_path / "pack" / "two.py").write_text("from planner.one._own import a\n")
    (tmp_path / "pack" / "one" / "three.py").write_text("from planner.one._own import a\n")
    assert private_elsewhere(tmp_path / "pack") == ["two.py imports planner.one._own"]
