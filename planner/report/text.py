"""Pages as plain text or as Markdown: tables are folded to the width that there is."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from planner.dataclasses import replace
from planner.printable import printable
from planner.report.page import Page, Table

WIDTH: Final = 80
"""Columns of a table where there is no terminal."""
WIDEST_WORD: Final = 34
"""Longest word that a column of text is not folded below."""

_NUMBER: Final = re.compile(r"[-+$]?[\d,]+(\.\d+)?([eE][-+]?\d+)?[%x]?( B)?\*?|-")


def page_text(page: Page, markdown: bool = False) -> str:
    """Return a page as plain text, or as Markdown."""
    as_text = markdown_part if markdown else plain_part
    return "\n".join(as_text(part) for part in printable_page(page))


def printable_page(page: Page) -> Page:
    """Return a page whose texts, some of which are of users' files, command no terminal."""
    return [
        printable(part)
        if isinstance(part, str)
        else replace(part, rows=tuple({k: printable(v) for k, v in row.items()} for row in part.rows))
        for part in page
    ]


def markdown_part(part: str | Table) -> str:
    """Return a paragraph or a table as Markdown."""
    if isinstance(part, str):
        return f"{part}\n"
    lines = [list(part.rows[0]), ["---"] * len(part.rows[0]), *(list(row.values()) for row in part.rows)]
    escaped = ([cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines)
    return "".join(f"| {' | '.join(line)} |\n" for line in escaped)


def plain_part(part: str | Table) -> str:
    """Return a paragraph or a table as plain text."""
    return "\n".join(paragraph(part) if isinstance(part, str) else table_lines(part)) + "\n"


def paragraph(text: str, width: int = WIDTH) -> Iterable[str]:
    """Yield the lines of a text, each at most so wide."""
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()) + 4) if line.startswith(" ") else ""
        yield from textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        ) or [""]


def table_lines(table: Table, width: int = WIDTH) -> list[str]:
    """Return a table as lines of at most ``width`` columns; long cells are folded, numbers stand right."""
    parts = [[*head, *rows] for head, rows in (laid_out(part, width) for part in bands(table, width))]
    return [line for number, part in enumerate(parts) for line in ([""] if number else []) + part]


def bands(table: Table, width: int) -> list[Table]:
    """Return a table whole, or in parts that are no wider, its first column in each, where it allows that."""
    if not table.side_by_side:
        return [table]
    first, *others = table.rows[0]

    def part(names: Sequence[str]) -> Table:
        return Table(tuple({name: row[name] for name in (first, *names)} for row in table.rows))

    def split(count: int) -> list[Table]:
        size = math.ceil(len(others) / count)
        return [part(others[start : start + size]) for start in range(0, len(others), size)]

    def fits(one: Table) -> bool:
        head, rows = laid_out(one, width)
        return max(map(len, (*head, *rows))) <= width

    tries = (split(count) for count in range(1, len(others) + 1))
    return next((parts for parts in tries if all(map(fits, parts))), split(len(others)))


def laid_out(table: Table, width: int) -> tuple[list[str], list[str]]:
    """Return the lines of a table's headings, and those of its rows."""
    heads = list(table.rows[0])
    right = [all(_NUMBER.fullmatch(row[head]) or not row[head] for row in table.rows) for head in heads]
    sizes, gap = _sizes(table, right, width)

    def lines(cells: Sequence[str]) -> Iterator[str]:
        folded = [_folded(cell, size) for cell, size in zip(cells, sizes, strict=True)]
        for number in range(max(map(len, folded))):
            parts = [column[number] if number < len(column) else "" for column in folded]
            placed = zip(parts, sizes, right, strict=True)
            padded = [f"{part:>{size}}" if end else f"{part:<{size}}" for part, size, end in placed]
            yield gap.join(padded).rstrip()

    return list(lines(heads)), [line for row in table.rows for line in lines([row[head] for head in heads])]


def _sizes(table: Table, right: Sequence[bool], width: int) -> tuple[list[int], str]:
    """Return the widths of columns and the gap between them.

    Where the table is too wide, headings of several words that are wider than what stands below them fold;
    then the widest column of text gives way, but keeps its words; then the gap.
    """
    heads = list(table.rows[0])
    cells = [max(len(row[head]) for row in table.rows) for head in heads]
    words = [[word for row in table.rows for word in row[head].split()] or [""] for head in heads]
    leasts = [
        size if numbers else min(max(map(len, column)), WIDEST_WORD)
        for size, numbers, column in zip(cells, right, words, strict=True)
    ]
    whole = [_in_two_lines(head) for head in heads]
    sizes = [max(len(head), size) for head, size in zip(heads, cells, strict=True)]
    floors = [max(pair) for pair in zip(leasts, whole, strict=True)]
    gap = 2 if sum(floors) + 2 * (len(sizes) - 1) <= width else 1
    for least in ([max(pair) for pair in zip(cells, whole, strict=True)], floors):
        while sum(sizes) + gap * (len(sizes) - 1) > width:
            elastic = [number for number, size in enumerate(least) if sizes[number] > size]
            if not elastic:
                break
            sizes[max(elastic, key=sizes.__getitem__)] -= 1
    return sizes, " " * gap


def _in_two_lines(head: str) -> int:
    """Return the width in which a heading takes two lines at most.

    Examples
    --------
    >>> _in_two_lines("GiB of 79.6"), _in_two_lines("layout")
    (6, 6)
    """
    words = head.split()
    cuts = [(" ".join(words[:cut]), " ".join(words[cut:])) for cut in range(len(words))]
    return min((max(len(first), len(rest)) for first, rest in cuts), default=0)


def _folded(cell: str, size: int) -> list[str]:
    return textwrap.wrap(cell, size, break_on_hyphens=False) or [""]
