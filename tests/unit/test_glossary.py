"""Quantities have one name each: the glossary lists every one that a formula or a technique takes."""

from __future__ import annotations

import ast
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.cases import every
from tests.helpers import ROOT, parsed

NUMBERS = {"Num", "Column", "float", "int"}
PACKAGES = ("formulas", "techniques")


def glossary() -> dict[str, set[str]]:
    """Return the units of each name in the tables of the glossary; empty where a table has none."""
    units: dict[str, set[str]] = {}
    for row in re.findall(r"^\|(.*)\|$", (ROOT / "docs" / "glossary.md").read_text("utf-8"), re.MULTILINE):
        first, *others = (cell.strip() for cell in row.split("|"))
        for name in re.findall(r"`(\w+)`", first):
            assert name not in units, f"{name} stands twice in the glossary"
            units[name] = set(others[0].split(", ")) if len(others) > 1 else set()
    return units


def quantities(package: Path) -> Iterator[tuple[str, str, str | None, bool]]:
    """Yield place, name and unit of each number a public function takes, and whether it is described."""
    modules = (path for path in package.rglob("*.py") if path.name[0] != "_")
    for path in sorted(modules):
        for node in public_functions(parsed(path)):
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if not isinstance(argument.annotation, ast.Name) or argument.annotation.id not in NUMBERS:
                    continue
                described, unit = description(ast.get_docstring(node) or "", argument.arg)
                yield f"{path.relative_to(package)}: {node.name}", argument.arg, unit, described


def public_functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    """Yield the public functions of a module and methods of its classes, not those inside them."""
    classes = [node.body for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in itertools.chain(tree.body, *classes):
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield node


def description(docstring: str, name: str) -> tuple[bool, str | None]:
    """Say whether a numpydoc docstring describes ``name``, and the last unit in brackets there."""
    head, _, parameters = docstring.partition("Parameters\n----------\n")
    found = re.search(rf"^(?:\w+, )*{name}(?:, \w+)* :.*\n((?: +.*\n?|\n)+)", parameters, re.MULTILINE)
    brackets = re.findall(r"\[([^\[\]]+)\]", found[1]) if found else []
    return bool(found) or f"``{name}``" in head, brackets[-1] if brackets else None


def strangers(package: Path, known: dict[str, set[str]]) -> list[str]:
    """Return the quantities that the glossary does not know, or knows in another unit."""
    faults = []
    for place, name, unit, described in quantities(package):
        symbol = len(name) == 1 and described
        if name not in known and not symbol:
            faults.append(f"{place}: {name} is not in the glossary")
        elif unit and known.get(name) and unit not in known[name]:
            faults.append(
                f"{place}: {name} is in {unit}, in the glossary in {', '.join(sorted(known[name]))}"
            )
    return faults


@every("package", PACKAGES)
def test_every_quantity_is_in_the_glossary_with_its_unit(package: str) -> None:
    assert strangers(ROOT / "planner" / package, glossary()) == []


def test_what_the_glossary_lists_is_somewhere_in_the_package() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "planner").rglob("*.py"))
    assert set(glossary()) - {word for source in sources for word in re.findall(r"\w+", source)} == set()


def test_the_words_of_the_contract_are_in_the_glossary() -> None:
    degrees = {"gpus", "tp", "pp", "cp", "dp", "ep", "etp", "vpp", "zero_shards", "micro_batch"}
    names = {"zero", "recompute", "cp_method", "schedule", "num_microbatches"}
    assert degrees | names <= set(glossary())


def documented(signature: str, *parameters: str) -> str:
    body = "\n".join(["F.", "", "Parameters", "----------", *parameters])
    return f"def f({signature}):\n" + textwrap.indent(f"'''{body}\n'''", "    ")


@every(
    ("text", "fault"),
    [
        ("def f(size: Num): ...", "size is not in the glossary"),
        ("def f(*, size: float): ...", "size is not in the glossary"),
        ("def f(q: Num): ...", "q is not in the glossary"),
        ("def f(q: Num):\n    '''Twice ``q``.'''", ""),
        (documented("hop: Num", "hop : Num", "    It. [s]"), ""),
        (documented("hop: Num", "hop : Num", "    It. [byte]"), "hop is in byte, in the glossary in s"),
        (
            documented(
                "a: str, hop: Num", "a, hop : Num", "    It.", "", "    Long. [byte]", "b : int", "    B. [s]"
            ),
            "hop is in byte, in the glossary in s",
        ),
        ("class C:\n    def f(self, size: Num): ...", "size is not in the glossary"),
        ("def _f(size: Num): ...", ""),
        ("def f():\n    def g(size: Num): ...", ""),
        ("def f(size: str): ...", ""),
    ],
)
def test_a_stranger_is_found(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "module.py").write_text(text)
    found = strangers(tmp_path, {"hop": {"s"}})
    assert [message.rpartition(": ")[2] for message in found] == ([fault] if fault else [])
