"""A file is read in one sitting, a function is seen on one screen, and what is public is described."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.cases import every
from tests.helpers import ROOT, nodes, package_files, parsed

MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 50
MOST_PARAMETERS = 8
MOST_FIELDS = 45

Function = ast.FunctionDef | ast.AsyncFunctionDef


def body_lines(function: Function) -> int:
    """Count the lines of a function's body without its docstring."""
    body = function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def parameter_count(function: Function) -> int:
    """Count the parameters that a caller may give, ``self`` and ``cls`` left out."""
    spec = function.args
    named = [argument.arg for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len([name for name in named if name not in {"self", "cls"}]) + bool(spec.vararg) + bool(spec.kwarg)


def undescribed(node: ast.AST, name: str = "") -> Iterator[str]:
    """Yield the names of public functions and classes without a docstring, stubs left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.ClassDef, *Function.__args__)) or child.name.startswith("_"):
            continue
        stub = isinstance(child.body[0], ast.Expr) and ast.unparse(child.body[0]) == "..."
        if ast.get_docstring(child) is None and not stub:
            yield name + child.name
        if isinstance(child, ast.ClassDef):
            yield from undescribed(child, f"{child.name}.")


def shape_faults(package: Path) -> list[str]:
    """Return what is too long, too wide or not described in the modules of ``package``."""
    faults = []
    for path in sorted(package.rglob("*.py")):
        text, here = path.read_text(encoding="utf-8"), path.relative_to(package)
        if (lines := len(text.splitlines())) > MOST_FILE_LINES:
            faults.append(f"{here}: {lines} lines")
        faults += [f"{here}: {name} has no docstring" for name in undescribed(parsed(path))]
        for node in nodes(path, *Function.__args__):
            if (lines := body_lines(node)) > MOST_FUNCTION_LINES:
                faults.append(f"{here}:{node.lineno}: {node.name} has {lines} lines")
            # The parameters of a command are its options: the contract says how many there are. What a
            # function of the API takes by name mirrors them.
            count = parameter_count(node) - len(node.args.kwonlyargs) * (here.name == "api.py")
            if count > MOST_PARAMETERS and here.parts[0] != "cli":
                faults.append(f"{here}:{node.lineno}: {node.name} has {count} parameters")
    return faults


def test_files_and_functions_have_the_agreed_shape() -> None:
    assert shape_faults(ROOT / "planner") == shape_faults(ROOT / "tests" / "lab") == []


LONG_BODY = "\n".join(["    pass"] * (MOST_FUNCTION_LINES + 1))
WIDE = ", ".join(f"p{i}" for i in range(MOST_PARAMETERS + 1))


@every(
    ("file", "text", "fault"),
    [
        ("a.py", "x = 1\n" * (MOST_FILE_LINES + 1), "a.py: 401 lines"),
        ("a.py", f"def _f():\n    '''One.\n\n    Two.\n    '''\n{LONG_BODY}\n", "a.py:1: _f has 51 lines"),
        ("a.py", f"def _f({WIDE}): ...\n", "a.py:1: _f has 9 parameters"),
        ("a.py", f"def _f(*, {WIDE}, **rest): ...\n", "a.py:1: _f has 10 parameters"),
        ("a.py", "def f():\n    return 1\n", "a.py: f has no docstring"),
        ("a.py", "class _P:\n    def f(self):\n        return 1\n", ""),
        (
            "a.py",
            "class P:\n    '''One.'''\n\n    def f(self):\n        return 1\n",
            "a.py: P.f has no docstring",
        ),
        ("a.py", "class P:\n    '''One.'''\n\n    def f(self) -> str: ...\n", ""),
        ("a.py", "class C:\n    '''One.'''\n\n" + "".join(f"    f{i}: int\n" for i in range(20)), ""),
        ("cli/a.py", f"def f({WIDE}):\n    '''One.'''\n", ""),
    ],
)
def test_a_fault_of_shape_is_found(tmp_path: Path, file: str, text: str, fault: str) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / file).write_text(text)
    assert shape_faults(tmp_path) == ([fault] if fault else [])


def field_counts(folder: Path) -> dict[str, int]:
    """Return how many fields each record below a folder has."""
    return {
        f"{path.relative_to(folder)}: {node.name}": sum(isinstance(line, ast.AnnAssign) for line in node.body)
        for path in sorted(folder.rglob("*.py"))
        for node in nodes(path, ast.ClassDef)
    }


def test_no_record_knows_everything() -> None:
    counts = field_counts(ROOT / "planner")
    assert len(counts) > 10
    assert {name: count for name, count in counts.items() if count > MOST_FIELDS} == {}


def test_a_record_that_knows_everything_is_found(tmp_path: Path) -> None:
    fields = "".join(f"    f{number}: int\n" for number in range(MOST_FIELDS + 1))
    (tmp_path / "a.py").write_text(f"class C:\n{fields}")
    assert field_counts(tmp_path) == {"a.py: C": MOST_FIELDS + 1}


def test_texts_are_asked_in_one_place_whether_they_are_whole_numbers() -> None:
    """``isdigit`` takes what ``int`` refuses: superscripts, and thousands of digits (`units.is_whole`)."""
    asking = [
        str(path.relative_to(ROOT))
        for path in package_files()
        for node in nodes(path, ast.Attribute)
        if node.attr in ("isdigit", "isdecimal", "isnumeric")
    ]
    assert asking == ["planner/units.py"]
