"""A Hydra file with the files of its ``defaults`` in their place.

References
----------
.. [1] Hydra (https://hydra.cc/docs/advanced/defaults_list): ``GROUP: NAME`` is GROUP/NAME.yaml below the
   folder of the file, placed at its group; ``_self_`` says where the file itself stands, at the end unless
   it is in the list.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.inputs.bounded import is_file
from planner.inputs.yaml_file import parse_yaml, read_text

DEFAULTS: Final = "defaults"
SELF: Final = "_self_"
MOST_DEEP: Final = 4


def composed(
    tree: Mapping[str, Any], path: Path, root: Path | None = None, depth: int = 0
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a file with the parts that its ``defaults`` name, and the parts that are not there.

    ``root``: the folder of the first file, below which groups stand.
    """
    listed = tree.get(DEFAULTS)
    if not isinstance(listed, list) or depth > MOST_DEEP:
        return tree, ()
    folder = path.parent if root is None else root
    own = {key: value for key, value in tree.items() if key != DEFAULTS}
    found: dict[str, Any] = {}
    missing: list[str] = []
    for item in listed if SELF in listed else [*listed, SELF]:
        if item == SELF:
            found = merged(found, own)
            continue
        for place, name in _named(item):
            file = _file(name, path.parent, folder)
            if file is None:
                missing.append(name)
                continue
            part, more = composed(parse_yaml(read_text(file), str(file)), file, folder, depth + 1)
            missing += more
            for key in reversed(place.split(".") if place else ()):
                part = {key: part}
            found = merged(found, part)
    return found, tuple(missing)


def _named(item: Any) -> list[tuple[str, str]]:
    """Return the places and names of an item of the list; an ``optional`` one may be missing."""
    if isinstance(item, str):
        return [("", item)]
    pairs = list(item.items()) if isinstance(item, Mapping) else []
    named: list[tuple[str, str]] = []
    for key, value in pairs:
        group, _, package = str(key).removeprefix("override ").removeprefix("optional ").partition("@")
        if isinstance(value, str) and not group.startswith(("/hydra", "hydra")):
            place = package or group.strip("/").replace("/", ".")
            named.append(("" if place == "_global_" else place, f"{group.strip('/')}/{value}"))
    return named


def _file(name: str, *folders: Path) -> Path | None:
    ending = "" if name.endswith((".yaml", ".yml")) else ".yaml"
    places = (folder / f"{name}{ending}" for folder in folders)
    return next((place for place in places if is_file(place)), None)


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return two files as one, in whose sections the other goes before.

    Examples
    --------
    >>> merged({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": 4})
    {'a': {'b': 1, 'c': 3}, 'd': 4}
    """
    whole = dict(one)
    for key, value in other.items():
        before = whole.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        whole[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return whole
