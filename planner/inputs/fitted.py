"""Constants fitted to measured runs, each a property of an accelerator, a site, an era or a runtime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from planner.inputs.load import data_folder
from planner.inputs.yaml_file import read_yaml


@dataclass(frozen=True)
class Constant:
    """One fitted number.

    Parameters
    ----------
    scope : str
        ``accelerator``, ``site``, ``era`` or ``runtime``.
    owner : str
        Which one.
    name : str
        The field that it sets.
    value : float
        In the unit of the field.
    standard_error : float
        Of the logarithm of the value. [-]
    rows : int
        Runs that it was fitted to.
    source : str
        Sources of these runs.
    meaning : str
        What it stands for, in words and with its unit.
    without : float or None
        Leave-one-group-out error of these runs where it keeps its plain value; None where not tried. [-]
    """

    scope: str
    owner: str
    name: str
    value: float
    standard_error: float
    rows: int
    source: str
    meaning: str
    without: float | None = None


def fitted_file(name: str = "constants") -> Path:
    """Return the file that holds the ``constants``, or the error ``bands``."""
    return data_folder("hardware_profiles") / "fitted" / f"{name}.yaml"


@cache
def error_bands() -> dict[tuple[str, str], float]:
    """Return the error that nine of ten measured runs stay below, by runtime and accelerator. [-]"""
    path = fitted_file("bands")
    if not path.is_file():
        return {}
    return {(entry["runtime"], entry["accelerator"]): entry["band"] for entry in read_yaml(path)["bands"]}


def error_band(runtime: str, accelerator: str) -> float | None:
    """Return the error band of a runtime on an accelerator, None where no run was ever measured. [-]"""
    return error_bands().get((runtime, accelerator))


@cache
def all_constants() -> tuple[Constant, ...]:
    """Return every constant that ships."""
    if not fitted_file().is_file():
        return ()
    return tuple(Constant(**entry) for entry in read_yaml(fitted_file())["constants"])


def fitted(scope: str, owner: str) -> list[Constant]:
    """Return the constants of one owner."""
    return [entry for entry in all_constants() if (entry.scope, entry.owner) == (scope, owner)]
