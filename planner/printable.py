"""Text of others on a terminal: names and keys of files, without the characters that command one."""

from __future__ import annotations

import re
from typing import Final

_COMMANDS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but the tab and the line's end, and those that turn the direction of writing."""

_FORMULA: Final = re.compile(r"[=+\-@\t\r]")
_NUMBER: Final = re.compile(r"[-+]?[\d.,]+([eE][-+]?\d+)?%?|-")


def printable(text: str) -> str:
    r"""Return a text whose control characters are written out.

    Examples
    --------
    >>> printable("plain\x1b[31m red")
    'plain\\x1b[31m red'
    """
    return _COMMANDS.sub(lambda found: repr(found[0])[1:-1], text)


def as_cell(value: object) -> object:
    """Return what stands in a CSV file: a text that a spreadsheet would take for a formula is quoted.

    Examples
    --------
    >>> as_cell("=1+1"), as_cell("-3.5"), as_cell("tp2"), as_cell(2)
    ("'=1+1", '-3.5', 'tp2', 2)
    """
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
