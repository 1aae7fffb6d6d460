"""One self-contained page with pictures: its blocks, and the HTML; needs the extra ``report``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.report.as_json import plain

Figure = dict[str, Any]
"""A picture as plotly has it."""

EXTRA: Final = "pip install 'parallelism-planner[report]'"
TEMPLATE: Final = Path(__file__).with_name("html_page.html")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: what is read, and the number that it is sorted by, if any."""

    text: str
    sort: float | None = None


@dataclass(frozen=True)
class HtmlBlock:
    """One part of the page."""

    kind: Literal["tiles", "text", "list", "table", "plot", "sliders"]
    """``tiles`` (rows of name and value), ``text``, ``list``, ``table``, ``plot`` or ``sliders``."""
    title: str = ""
    note: str = ""
    """Its heading, and a line below it."""
    lines: tuple[str, ...] = ()
    """Paragraphs or items."""
    headings: tuple[str, ...] = ()
    rows: tuple[Sequence[Any], ...] = ()
    """Of a table; the rows of tiles are pairs of text."""
    figure: Figure | None = None
    """Of a plot."""
    controls: Mapping[str, Any] | None = None
    """Of sliders: their axes, and what is shown at each combination of stops."""
    id: str = ""
    """Name of a plot or of sliders in the page."""


@dataclass(frozen=True)
class HtmlPage:
    """A whole page: title, blocks, and the last line."""

    title: str
    blocks: tuple[HtmlBlock, ...]
    footer: str = ""


def footer(version: str) -> str:
    """Return the last line of a page."""
    return f"Written by planner {version}. Nothing on this page is loaded from anywhere."


def plot(name: str, title: str, figure: Figure, note: str = "") -> HtmlBlock:
    """Return a picture."""
    return HtmlBlock("plot", title, note, figure=figure, id=f"plot-{name}")


def table(title: str, headings: Iterable[str], rows: Iterable[Sequence[Cell]], note: str = "") -> HtmlBlock:
    """Return a table that its headings sort."""
    return HtmlBlock("table", title, note, headings=tuple(headings), rows=tuple(rows))


def number(value: float | None, text: str) -> Cell:
    """Return a cell that is sorted by its number; what is unknown is sorted as text."""
    return Cell(text if value is not None else "-", value)


def page_html(page: HtmlPage) -> str:
    """Return a page as one HTML document, with everything that it needs inside.

    Raises `InputError` if plotly is not installed; the message names the extra.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    figures = {block.id: block.figure for block in page.blocks if block.figure is not None}
    environment = Environment(autoescape=True, keep_trailing_newline=True)
    template = environment.from_string(TEMPLATE.read_text(encoding="utf-8"))
    return template.render(
        title=page.title,
        blocks=page.blocks,
        footer=page.footer,
        library=Markup(library().replace("</script", "<\\/script")),
        figures=Markup(_script_json(checked(figures))),
        sliders=Markup(_script_json({block.id: block.controls for block in page.blocks if block.controls})),
    )


def library() -> str:
    """Return the text of the plotting library.

    Raises `InputError` if plotly is not installed; the message names the extra.
    """
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError(
            Problem("report", "an installation without plotly", f"the extra report: {EXTRA}")
        ) from None
    return str(get_plotlyjs())


def checked(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Return figures as plotly understands them; a property that it does not know is an error."""
    from plotly.graph_objects import Figure as PlotlyFigure

    return {name: PlotlyFigure(figure).to_plotly_json() for name, figure in figures.items()}


def _script_json(value: Any) -> str:
    """Return JSON that can stand inside a script: nothing in it ends the element."""
    text = json.dumps(plain(value), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
