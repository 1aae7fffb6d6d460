"""Rows as a table, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

Rows = Sequence[Mapping[str, Any]]


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


def emit(rows: Rows, output: Format, headings: Mapping[str, str] | None = None, legend: str = "") -> None:
    """Write ``rows`` to standard output.

    Parameters
    ----------
    rows : sequence of mappings
        All with the same keys.
    output : Format
        JSON and CSV have the keys as they are.
    headings : mapping, optional
        Shorter headings for a table.
    legend : str
        Text below a table.
    """
    renderers = {Format.json: as_json, Format.csv: as_csv, Format.markdown: as_markdown}
    if output in renderers:
        sys.stdout.write(renderers[output](rows))
    else:
        _table(rows, headings or {}, legend)


def as_json(rows: Rows) -> str:
    """Return a list of objects; what is unknown is null."""
    return json.dumps([dict(row) for row in rows], indent=2) + "\n"


def as_csv(rows: Rows) -> str:
    """Return comma-separated values with one line of headings."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def as_markdown(rows: Rows) -> str:
    """Return a Markdown table."""
    if not rows:
        return ""
    lines = [
        list(rows[0]),
        ["---"] * len(rows[0]),
        *([_word(value) for value in row.values()] for row in rows),
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _table(rows: Rows, headings: Mapping[str, str], legend: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for key, value in (rows[0] if rows else {}).items():
        right = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(
            headings.get(key, key.replace("_", " ")), justify="right" if right else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(_word(value) for value in row.values()))
    console.print(table if rows else "nothing differs")
    if legend:
        console.print(legend, soft_wrap=True, highlight=False, markup=False)
