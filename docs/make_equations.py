"""Write equations and sources from docstrings into docs/explanation: ``python docs/make_equations.py``.

A page holds ``<!-- equation: package.module.function -->`` and ``<!-- end -->``, filled in here.
"""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap
from pathlib import Path

FOLDER = Path(__file__).parent / "explanation"
"""Where the pages stand."""

MARK = re.compile(r"<!-- equation: ([\w.]+) -->\n.*?<!-- end -->", re.DOTALL)


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


def rewritten(text: str) -> str:
    """Return a page with today's equations."""
    return MARK.sub(
        lambda found: f"<!-- equation: {found[1]} -->\n\n{described(found[1])}\n\n<!-- end -->", text
    )


def pages() -> list[Path]:
    """Return the pages that hold equations."""
    return [path for path in sorted(FOLDER.glob("*.md")) if MARK.search(path.read_text(encoding="utf-8"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
