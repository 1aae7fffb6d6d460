"""A cluster that is another one but for some fields: ``base: dgx-h100`` and what differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from planner.errors import InputError, Problem
from planner.inputs.hardware import Pool

OWN: Final = frozenset({"name", "aliases", "note"})
"""Fields of a cluster's own, which none takes from its base."""

QUOTED: Final = frozenset({"price_date", "price_seller", "price_kind"})
"""Fields that say whose a price is, and go with it."""


def changed_cluster(
    raw: Mapping[str, Any], path: Path, parts: frozenset[str], load: Callable[[str], dict[str, Any]]
) -> dict[str, Any]:
    """Return a cluster without ``base``: the pool of the base, with the fields that the file changes.

    A part that is a mapping changes fields of the base's part; one that is a name takes its place.

    ``raw``: what the file holds, sources left out; ``parts``: fields of a pool that are parts; ``load``: what
    the file of a cluster by its name or path holds, its sources written out.

    Raises `InputError` if there is no such base, it has several pools, or a field is none of a pool.
    """
    base = raw.get("base")
    if base is None:
        return dict(raw)
    if not isinstance(base, str) or "pools" in raw:
        expected = "the name or path of a cluster, and the fields that differ in the place of pools"
        raise InputError(
            Problem(f"{path}: base", repr(base) if not isinstance(base, str) else "pools", expected)
        )
    whole = load(base)
    if len(whole.get("pools", ())) != 1:
        raise InputError(Problem(f"{path}: base", repr(base), "a cluster of one pool"))
    own = {key: value for key, value in raw.items() if key not in OWN | {"base"}}
    unknown = sorted(set(own) - set(Pool.model_fields))
    if unknown:
        fields = ", ".join(Pool.model_fields)
        raise InputError(
            [Problem(f"{path}: {name}", "no field of a pool", f"one of {fields}") for name in unknown]
        )
    seller = QUOTED if "price" in own else frozenset()
    pool = {key: value for key, value in whole["pools"][0].items() if key not in seller}
    for key, value in own.items():
        pool[key] = _part(pool.get(key), value) if key in parts else value
    named = {key: raw[key] for key in OWN if key in raw}
    return {"name": path.stem} | named | {"pools": [pool]}


def _part(base: Any, value: Any) -> Any:
    """Return a part with changed fields; one that names its own base, or is a name, as it is."""
    if not isinstance(value, Mapping) or "base" in value or base is None:
        return value
    return {"base": base} | dict(value) if isinstance(base, str) else dict(base) | dict(value)
