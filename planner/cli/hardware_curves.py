"""The kernel curves of a measured profile, as fields that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.inputs.hardware import Accelerator, HardwareProfile
from planner.inputs.record import Record, Sourced
from planner.inputs.yaml_file import read_yaml
from planner.units import DIMENSIONS, parse

SKIPPED: Final = {
    "accelerator",
    "source",
    "licence",
    "range",
    "tiles",
    "note",
    "operators",
    "sustained_standing",
}


def curve_fields(record: Record) -> list[tuple[str, Any]]:
    """Return the numbers of the measured curves of an accelerator, or of a cluster of one kind."""
    part = record.pool.accelerator if isinstance(record, HardwareProfile) else record
    if not isinstance(part, Accelerator) or not part.curves:
        return []
    path = Path(part.curves).expanduser()
    if not path.is_file():
        return []
    content = read_yaml(path)
    return _fields(content, "curves") if "provenance" in content else []


def _fields(content: Mapping[str, Any], place: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in content.items():
        if name in SKIPPED:
            continue
        if isinstance(value, Mapping):
            found += _fields(value, f"{place}.{name}")
        elif value not in ("", None):
            exact = place.endswith("provenance")
            found.append((f"{place}.{name}", str(value) if exact else number_of(value)))
    return found


def number_of(value: Any) -> Any:
    """Return a quantity as a number that remembers its text, anything else as it is."""
    for dimension in DIMENSIONS:
        try:
            return Sourced(parse(value, dimension), str(value), "", "measured")
        except ValueError:
            continue
    return value
