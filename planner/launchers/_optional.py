"""Parts of a manifest that count only where a user's variable is set, and are comments until then."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

OPTION: Final = "?"
"""What stands between the sign of a comment and the variable's name."""

_MARK: Final = re.compile(r"""^( *)(- )?(["']?)if_set_([A-Z_]+)__""")


def optional(variable: str, key: str) -> str:
    """Return a key that, with all below it, counts only where the variable is set."""
    return f"if_set_{variable}__{key}"


def commented(text: str) -> str:
    r"""Return YAML whose optional keys, and all below them, are comments that begin with ``#?NAME ``.

    An item of a list is optional as a whole if its first key is.

    Examples
    --------
    >>> print(commented("a: 1\nif_set_QUEUE__b:\n- c: 2\n  d: 3\ne: 4\n"), end="")
    a: 1
    #?QUEUE b:
    #?QUEUE - c: 2
    #?QUEUE   d: 3
    e: 4
    """
    lines, name, depth = [], "", (0, False)
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip(" "))
        item = line.startswith("- ", indent)
        if name and indent <= depth[0] and not (item and indent == depth[0] and not depth[1]):
            name = ""
        if not name and (found := _MARK.match(line)):
            name, depth = found[4], (indent, bool(found[2]))
            line = f"{found[1]}{found[2] or ''}{found[3]}{line[found.end() :]}"
        if name:
            line = f"{line[: depth[0]]}#{OPTION}{name} {line[depth[0] :]}"
        lines.append(line)
    return "\n".join(lines) + "\n"


FILL: Final = r"""
for name in OWN; do
  if [[ -n "${!name}" ]]; then text=${text//"#OPTION${name} "/}; fi
done
for name in NAMES; do
  value=${!name//\\/\\\\}
  value=${value//\"/\\\"}
  value=${value//$'\n'/\\n}
  DOLLARS
  text=${text//"{{${name}}}"/"${value}"}
done
""".lstrip()

DOLLARS: Final = r"""if [[ " PLAIN " != *" ${name} "* ]]; then value=${value//\$/\$\$}; fi"""
"""Kubernetes reads ``$(NAME)`` in what a container runs and gets; a doubled sign is one sign."""


def fill_block(own: Iterable[str], names: Iterable[str] = (), plain: Iterable[str] | None = None) -> str:
    """Return the lines that put the variables into the shell variable ``text``, which holds a manifest.

    Parameters
    ----------
    own : iterable of str
        Variables that may be unset, on which optional parts hang.
    names : iterable of str
        Other variables with placeholders.
    plain : iterable of str, optional
        Variables that nobody expands later; dollar signs of all others are doubled. Without it none are.
    """
    dollars = "" if plain is None else DOLLARS.replace("PLAIN", " ".join(plain))
    lines = FILL.replace("  DOLLARS\n", f"  {dollars}\n" if dollars else "").replace("OPTION", OPTION)
    return lines.replace("OWN", " ".join(own)).replace("NAMES", " ".join((*names, *own)))
