"""What the files of shipped accelerators state, read without what is worked out from it."""

from __future__ import annotations

from typing import Any

from planner.inputs.bounded import is_file
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_yaml
from planner.units import parse


def ceiling_of(accelerator: str) -> float:
    """Measured matrix product ceiling, 0 where there is none. [-]"""
    return stated_by(accelerator, "matmul_efficiency", "-")


def power_of(accelerator: str) -> float:
    """Rated power, 0 where there is none. [W]"""
    return stated_by(accelerator, "power", "W")


def stated_by(accelerator: str, field: str, unit: str) -> float:
    """Return a field in its unit, 0 where the file lacks it."""
    found = shipped_accelerator(accelerator).get(field)
    return parse(found["value"], unit) if found else 0.0


def shipped_accelerator(name: str) -> dict[str, Any]:
    """Return what the file of a shipped accelerator says, nothing where there is none."""
    path = data_folder("hardware_profiles") / "accelerators" / f"{name}.yaml"
    return read_yaml(path) if is_file(path) else {}
