"""A formula's docstring as a reader wants it in a terminal: its meaning, equation and source."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from planner.dataclasses import dataclass

_GREEK: Final = {"alpha": "α", "beta": "β", "gamma": "γ", "sigma": "σ", "epsilon": "ε", "rho": "rho"}
_SIGNS: Final = {
    r"\cdot": "·", r"\quad": "  ", r"\ln": "ln", r"\max": "max", r"\min": "min", r"\sum": "sum",
    r"\lceil": "ceil(", r"\rceil": ")", r"\lfloor": "floor(", r"\rfloor": ")", r"\left": "", r"\right": "",
    r"\bmod": "mod", r"\ge": ">=", r"\le": "<=", r"\times": "×", r"\in": "in",
}  # fmt: skip
_UNIT: Final = re.compile(r"\[([^\[\]]+)\]\s*$", re.MULTILINE)


@dataclass(frozen=True)
class FormulaText:
    """What a formula's docstring says."""

    summary: str
    """Its first line, without its unit."""
    equation: str
    """Its equation in plain signs; empty where it has none."""
    source: str
    """Its references."""
    units: dict[str, str]
    """Unit of each parameter that has one, and of the result under ``return``."""


def formula_text(function: Callable[..., Any]) -> FormulaText:
    """Read the docstring of a formula."""
    text = inspect.getdoc(function) or ""
    sections = re.split(r"^(\w[\w ]*)\n-{3,}\n", text, flags=re.MULTILINE)
    head, named = sections[0], dict(zip(sections[1::2], sections[2::2], strict=True))
    found = re.search(r"\.\. math::((?:.*\n?)(?:\n? {2,}.*\n?)*)", head)
    units: dict[str, str] = {}
    for names, described in re.findall(
        r"^(\S[^:\n]*) :[^\n]*\n((?: +.*\n?|\n)+)", named.get("Parameters", ""), re.MULTILINE
    ):
        unit = _UNIT.findall(described)
        units |= {name.strip(): unit[-1] for name in names.split(",") if unit}
    summary = head.split("\n\n")[0]
    result = _UNIT.findall(named.get("Returns", summary))
    references = re.sub(r"\.\. \[\d+\] ", "", named.get("References", ""))
    return FormulaText(
        summary=_prose(_UNIT.sub("", summary)),
        equation=plain_equation(found[1]) if found else "",
        source=_prose(references),
        units=units | ({"return": result[-1]} if result else {}),
    )


def _prose(text: str) -> str:
    """Return a paragraph without the marks of its markup."""
    plain = re.sub(r":math:`([^`]*)`", lambda found: plain_equation(found[1]), text)
    return " ".join(plain.replace("``", "").split())


def plain_equation(latex: str) -> str:
    r"""Return an equation without the marks of LaTeX.

    Examples
    --------
    >>> plain_equation(r"t = t_0 + \frac{4 d (v + v_0)}{R_{b}} \lceil m / p \rceil")
    't = t_0 + (4 d (v + v_0)) / R_b ceil(m / p)'
    """
    text = re.sub(r"\\text\{([^{}]*)\}", r"\1", latex.replace(r"\{", "[").replace(r"\}", "]"))
    text = re.sub(r"_\{([^{}]*)\}", r"_\1", text)
    text = re.sub(r"\^\{([^{}]*)\}", r"^(\1)", text)
    while (shorter := _without_braces(text)) != text:
        text = shorter
    for name, sign in _GREEK.items():
        text = text.replace(f"\\{name}", sign)
    for name in sorted(_SIGNS, key=len, reverse=True):
        text = text.replace(name, _SIGNS[name])
    text = re.sub(r"\\[,;! ]|\\\\", " ", text).replace("{", "(").replace("}", ")")
    text = re.sub(r"\\([A-Za-z]+)", r"\1", text)
    return re.sub(r"\( +", "(", re.sub(r" +\)", ")", " ".join(text.split())))


def _without_braces(text: str) -> str:
    """Return the text with its innermost fractions and roots written in one line."""
    text = re.sub(
        r"\\frac\{([^{}]*)\}\{([^{}]*)\}", lambda part: f"{_wrapped(part[1])} / {_wrapped(part[2])}", text
    )
    text = re.sub(r"\\sqrt\[(\d)\]\{([^{}]*)\}", r"root\1(\2)", text)
    return re.sub(r"\\sqrt\{([^{}]*)\}", r"sqrt(\1)", text)


def _wrapped(part: str) -> str:
    """Return a part of a fraction, in parentheses where it is more than one word."""
    bare = part.strip()
    return bare if re.fullmatch(r"[\w\\]+", bare) else f"({bare})"
