"""Where the files lie that a launch file names."""

from __future__ import annotations

from pathlib import Path

from planner.inputs.bounded import is_file


def find_beside(named: Path, by: Path) -> Path | None:
    """Return the file that ``by`` names: from its own folder, one above it, or beside it; None if nowhere.

    Of a path from the root of another machine its last folders count, where ``by`` lies in such a tree.
    """
    if not named.name:
        return None
    folder = by.absolute().parent
    folders = (folder, *folder.parents)
    parts = named.parts[1:] if named.is_absolute() else ()
    moved = (above / Path(*parts[at:]) for at in range(1, len(parts) - 1) for above in folders)
    places = (named, *(above / named for above in folders), *moved, by.with_name(named.name))
    return next((place for place in places if is_file(place)), None)
