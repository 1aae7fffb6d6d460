"""Write equations and sources from docstrings into docs/explanation: ``python docs/make_equations.py``.

A page holds ``<!-- equation: package.module.function -->`` and ``<!-- end -->``, filled in here, and may hold
``<!-- symbols -->`` and ``<!-- end -->`` for a table of what the functions of its equations take.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from planner.formulas.pipeline import Pipe

FOLDER = Path(__file__).parent / "explanation"
"""Where the pages stand."""

MARK = re.compile(r"<!-- equation: ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)


SYMBOLS = re.compile(r"<!-- symbols -->\n.*?<!-- end -->", re.DOTALL)


def math_of(docstring: str) -> str:
    """Return the equation of a docstring, or nothing."""
    found = re.search(r"^\.\. math::(.*\n(?:[ \t]+.*\n|\n)*)", docstring + "\n", re.MULTILINE)
    if not found:
        return ""
    first, _, rest = found[1].partition("\n")
    lines = [first.strip(), textwrap.dedent(rest).strip()]
    return "\n".join(line for line in lines if line)


def sources_of(docstring: str) -> list[str]:
    """Return the references of a docstring, one a line."""
    _, _, references = docstring.partition("References\n----------\n")
    body = re.split(r"\n\n\w+\n---+\n", references)[0]
    return [
        " ".join(one.split()) for one in re.split(r"^\.\. \[\d+\] ", body, flags=re.MULTILINE) if one.strip()
    ]


def described(path: str) -> str:
    """Return what stands in a page for one function."""
    module, _, name = path.rpartition(".")
    docstring = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    title = docstring.partition("\n")[0].replace(":math:", "")
    equation = math_of(docstring)
    parts = [f"`{name}`: {title}"]
    parts += [f"```math\n{equation}\n```"] if equation else []
    parts += ["\n".join(f"- {source}" for source in sources_of(docstring))]
    return "\n\n".join(part for part in parts if part)


def parameters_of(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a docstring, each with what it says of it on one line."""
    _, _, section = docstring.partition("Parameters\n----------\n")
    body = re.split(r"\n\n\w+\n---+\n", section)[0]
    for found in re.finditer(r"^(\w[\w, ]*) : .*\n((?:[ \t]+.*\n?|\n)*)", body, re.MULTILINE):
        yield found[1], " ".join(found[2].split())


def taken(function: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield what a function takes: what its docstring says, and the symbols of a pipeline."""
    yield from parameters_of(inspect.getdoc(function) or "")
    if inspect.get_annotations(function, eval_str=True).get("pipe") is Pipe:
        yield from parameters_of(inspect.getdoc(Pipe) or "")


def symbol_rows(paths: list[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yield symbol, name, meaning and unit of what some functions take, each once."""
    seen = set()
    for path in paths:
        module, _, name = path.rpartition(".")
        for names, text in taken(getattr(importlib.import_module(module), name)):
            unit = re.search(r" ?\[([^]]+)\]\.?$", text)
            said = re.findall(r":math:`([^`]+)`", text)
            symbol = f"${said[0]}$" if len(said) == 1 and "," not in names else ""
            meaning = re.sub(r" ?:math:`([^`]+)`", "" if symbol else r" $\1$", text)
            meaning = meaning[: -len(unit[0])] if unit and meaning.endswith(unit[0]) else meaning
            row = (symbol, f"`{names}`", meaning.strip(" .").replace("|", "/"), unit[1] if unit else "")
            if row not in seen:
                seen.add(row)
                yield row


def symbol_table(paths: list[str]) -> str:
    """Return the table of symbols of a page."""
    rows = [
        ("symbol", "in the code", "means", "unit"),
        ("---",) * 4,
        *sorted(symbol_rows(paths), key=by_name),
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def by_name(row: tuple[str, str, str, str]) -> tuple[bool, str]:
    """Order rows with a symbol first, and by name."""
    return not row[0], row[1].lower()


def rewritten(text: str) -> str:
    """Return a page with today's equations and symbols."""
    paths = MARK.findall(text)
    text = MARK.sub(
        lambda found: f"<!-- equation: {found[1]} -->\n\n{described(found[1])}\n\n<!-- end -->", text
    )
    return SYMBOLS.sub(lambda _: f"<!-- symbols -->\n\n{symbol_table(paths)}\n\n<!-- end -->", text)


def pages() -> list[Path]:
    """Return the pages that hold equations."""
    return [path for path in sorted(FOLDER.glob("*.md")) if MARK.search(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
