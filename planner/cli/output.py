"""Answers on standard output: tables and paragraphs, JSON, CSV or Markdown."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from planner.cli.options import Format
from planner.printable import as_cell
from planner.report.page import Page, Table
from planner.report.text import bands, laid_out, markdown_part, page_text, paragraph, printable_page

Rows = Sequence[Mapping[str, Any]]


def emit_document(document: Any) -> None:
    """Write one JSON document."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def emit_page(page: Page, output: Format) -> None:
    """Write a page as Markdown, or as text: with rich on a terminal, plain elsewhere."""
    if output is Format.table and sys.stdout.isatty():
        _rich(printable_page(page))
    else:
        sys.stdout.write(page_text(page, output is Format.markdown))


def emit_rows(
    rows: Rows, output: Format, headings: Mapping[str, str] | None = None, legend: str = ""
) -> None:
    """Write rows with the same keys.

    ``rows``: all with the same keys; ``output``: JSON and CSV have the keys as they are; ``headings``:
    shorter headings for a table.
    """
    if output is Format.json:
        emit_document([dict(row) for row in rows])
    elif output is Format.csv:
        sys.stdout.write(as_csv(rows))
    elif output is Format.markdown:
        sys.stdout.write(markdown_part(_table(rows, {})) if rows else "")
    else:
        short = {key: key.replace("_", " ") for key in (rows[0] if rows else {})} | dict(headings or {})
        page: Page = [_table(rows, short)] if rows else ["nothing differs"]
        emit_page([*page, legend.strip("\n")] if legend else page, output)


def as_csv(rows: Rows) -> str:
    """Return comma-separated values with one line of headings."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: as_cell(value) for name, value in row.items()} for row in rows)
    return stream.getvalue()


def _table(rows: Rows, headings: Mapping[str, str]) -> Table:
    return Table(tuple({headings.get(key, key): _word(value) for key, value in row.items()} for row in rows))


def _word(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rich(page: Page) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, color_system=None if os.environ.get("NO_COLOR") else "auto")
    for number, part in enumerate(page):
        if number:
            console.print()
        if isinstance(part, str):
            console.print(Text("\n".join(paragraph(part, console.width))), soft_wrap=True)
            continue
        for place, band in enumerate(bands(part, console.width)):
            if place:
                console.print()
            head, rows = laid_out(band, console.width)
            longest = max(map(len, (*head, *rows)))
            console.print(Text("\n".join(head), style="bold"), soft_wrap=True)
            console.print(Text("─" * min(longest, console.width), style="dim"))
            console.print(Text("\n".join(rows)), soft_wrap=True)
