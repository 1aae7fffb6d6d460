"""Where a file lies that another names."""

from __future__ import annotations

from pathlib import Path

from planner.inputs.bounded import is_file


def find_beside(named: Path, by: Path) -> Path | None:
    """Return the file that ``by`` names: from its own folder, one above it, or beside it; None if nowhere."""
    folder = by.absolute().parent
    places = (named, *(above / named for above in (folder, *folder.parents)), by.with_name(named.name))
    return next((place for place in places if is_file(place)), None)
