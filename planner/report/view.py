"""One view for text, HTML, Markdown and CSV: a column has name, unit, key and text, and is declared once.

A table is columns over records; a record is one flat line of figures, as CSV has it, under the keys of the
JSON documents, so that an answer just priced and one read from a file are shown alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from planner.dataclasses import dataclass, replace
from planner.deferred import deferred
from planner.report.page import Table

with deferred():
    from planner.report import html

if TYPE_CHECKING:
    from planner.report.html import Cell, HtmlBlock


@dataclass(frozen=True)
class Column:
    """One column of a table, or one figure of a list, in every format."""

    name: str
    """Its heading, which for a number says the unit."""
    unit: str
    """Unit of its number: ``s``, ``GiB``, ``share``, ``USD``, ``day``; empty for words."""
    key: str
    """Where its number stands in JSON and CSV; for words made of several keys, the first of them."""
    text: Callable[[Any], str]
    """From a record to what people read."""
    title: str = ""
    """A longer name where there is room, with the unit in the text; the name if not given."""
    titled: Callable[[Any], str] | None = None
    """From a record to the text under the title; ``text`` if not given."""

    def number(self, record: Any) -> float | None:
        """Return the number that a table is sorted by; None for words and for what is unknown."""
        return record.get(self.key) if self.unit else None

    def cell(self, record: Any) -> Cell:
        """Return a cell of HTML."""
        return html.Cell(self.text(record), self.number(record))

    def item(self, record: Any) -> tuple[str, str]:
        """Return title and text of one figure in a list."""
        return self.title or self.name, (self.titled or self.text)(record)

    def called(self, name: str) -> Column:
        """Return the same column under a name that says more where it stands."""
        return replace(self, name=name)


def figure(
    key: str,
    name: str,
    unit: str,
    said: Callable[[Any], str],
    title: str = "",
    titled: Callable[[Any], str] | None = None,
) -> Column:
    """Return the column of one key, from how its value is said."""
    return Column(name, unit, key, _of(key, said), title, titled and _of(key, titled))


def _of(key: str, said: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda record: said(record.get(key))


@dataclass(frozen=True)
class View:
    """Columns over records."""

    columns: Sequence[Column]
    """From left to right."""
    records: Sequence[Any]
    """From top to bottom."""

    def table(self) -> Table:
        """Return a table of text."""
        return Table(tuple({one.name: one.text(row) for one in self.columns} for row in self.records))

    def block(self, title: str, note: str = "") -> HtmlBlock:
        """Return a table of HTML, sorted by its headings."""
        rows = [[one.cell(row) for one in self.columns] for row in self.records]
        return html.table(title, [one.name for one in self.columns], rows, note)

    def beside(self, names: Iterable[str], head: str = "figure") -> Table:
        """Return a table of text with a line for each column and the records side by side under ``names``.

        What no record knows is left out.
        """
        lines = [(one.name, [one.text(row) for row in self.records]) for one in self.columns]
        return beside(head, names, dict(lines))


def beside(head: str, names: Iterable[str], lines: dict[str, list[str]]) -> Table:
    """Return lines of text under names that are compared; a line that nobody knows is left out."""
    heads = [head, *names]
    known = {name: texts for name, texts in lines.items() if set(texts) != {"-"}}
    return Table(
        tuple(dict(zip(heads, (name, *texts), strict=True)) for name, texts in known.items()),
        side_by_side=True,
    )


def figures(columns: Iterable[Column], record: Any) -> Table:
    """Return one record as a list of figures under their titles."""
    items = (one.item(record) for one in columns)
    return Table(tuple({"figure": name, "value": text} for name, text in items))
