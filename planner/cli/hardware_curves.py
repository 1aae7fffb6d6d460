"""The kernel curves of a measured profile, as fields that can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from planner.inputs.hardware import Accelerator, HardwareProfile
from planner.inputs.load_hardware import hardware_folder
from planner.inputs.record import Record, Sourced
from planner.inputs.yaml_file import read_yaml
from planner.units import DIMENSIONS, parse

SKIPPED: Final = {
    "accelerator", "source", "licence", "range", "tiles", "note", "operators", "sustained_standing",
}  # fmt: skip


Fields = list[tuple[str, Any]]


def curve_fields(one: Record, other: Record) -> tuple[Fields, Fields]:
    """Return the numbers of the curves of two accelerators, or clusters of one kind each.

    Curves that ship are told where the others were measured, in the fields that those have; two that ship
    are not compared.
    """
    first, second = _measured_fields(one), _measured_fields(other)
    if first and not second:
        second = _shipped_fields(other, first)
    elif second and not first:
        first = _shipped_fields(one, second)
    return first, second


def _accelerator(record: Record) -> Accelerator | None:
    part = record.pool.accelerator if isinstance(record, HardwareProfile) else record
    return part if isinstance(part, Accelerator) else None


def _measured_fields(record: Record) -> Fields:
    part = _accelerator(record)
    path = Path(part.curves).expanduser() if part and part.curves else None
    if path is None or not path.is_file():
        return []
    content = read_yaml(path)
    return _fields(content, "curves") if "provenance" in content else []


def _shipped_fields(record: Record, wanted: Fields) -> Fields:
    part, names = _accelerator(record), {name for name, _ in wanted}
    path = hardware_folder("curves") / f"{part.curves or part.name}.yaml" if part else None
    content = read_yaml(path) if path and path.is_file() else {}
    return [(name, value) for name, value in _fields(content, "curves") if name in names]


def _fields(content: Mapping[str, Any], place: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in content.items():
        if name in SKIPPED:
            continue
        if name.endswith("residuals"):
            shares = value["shares"]
            words = f"{len(shares)} shares, {min(shares):+.1%} to {max(shares):+.1%}"
            found.append((f"{place}.{name}", words))
        elif isinstance(value, Mapping):
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
