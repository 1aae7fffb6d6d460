"""How answers show themselves to people at a prompt and in a notebook; what shows them is set from above."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_VIEWS: dict[str, Callable[[Any], Any]] = {}
"""How an answer is made short, a page of HTML, or a record, by name."""


def show_with(short: Callable[[Any], str], html: Callable[[Any], str], record: Callable[[Any], Any]) -> None:
    """Set how answers show themselves."""
    _VIEWS.update(short=short, html=html, record=record)


class Short:
    """A thing that is one line at a prompt."""

    def __repr__(self) -> str:
        """Return one line that says what it is."""
        return str(_VIEWS["short"](self)) if _VIEWS else object.__repr__(self)


class Shown(Short):
    """An answer with a short form, a table for notebooks, and a record."""

    def _repr_html_(self) -> str | None:
        """Return a table for notebooks."""
        return str(_VIEWS["html"](self)) if _VIEWS else None

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as the JSON document that the command of its name prints."""
        return dict(_VIEWS["record"](self))
