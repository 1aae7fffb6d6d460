"""Constants fitted to measured runs, each a property of an accelerator, a site, an era or a runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from planner.dataclasses import dataclass
from planner.deferred import deferred
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_fitted, read_yaml

with deferred():
    from planner.inputs import kernels


@dataclass(frozen=True)
class Constant:
    """One fitted number."""

    scope: str
    """``accelerator``, ``site``, ``era`` or ``runtime``."""
    owner: str
    """Which one."""
    name: str
    """The field that it sets."""
    value: float
    """In the unit of the field."""
    standard_error: float
    """Of the logarithm of the value. [-]"""
    rows: int
    """Runs that it was fitted to."""
    source: str
    """Sources of these runs."""
    meaning: str
    """What it stands for, in words and with its unit."""
    without: float | None = None
    """Leave-one-group-out error of these runs where it keeps its plain value; None where not tried. [-]"""


def fitted_file(name: str = "constants") -> Path:
    """Return the file that holds the ``constants``, or the error ``bands``."""
    return data_folder("hardware_profiles") / "fitted" / f"{name}.yaml"


@cache
def all_constants() -> tuple[Constant, ...]:
    """Return every constant that ships."""
    if not fitted_file().is_file():
        return ()
    return tuple(Constant(**entry) for entry in read_fitted(fitted_file())["constants"])


def fitted(scope: str, owner: str) -> list[Constant]:
    """Return the constants of one owner."""
    return [entry for entry in all_constants() if (entry.scope, entry.owner) == (scope, owner)]


SHARE: Final = "training_share"
"""Name of the constant that says what training reaches of an accelerator's curves."""

REFERENCE: Final = "a100-80gb-sxm"
"""The accelerator whose share is 1: what its training steps reach of its curves stands with the codes."""


def share_of_kin(arch: str, shares: Mapping[str, float]) -> float:
    """Return the share of its curves that an accelerator without runs reaches in training. [-]

    The geometric mean over the accelerators with runs: those of its architecture, or of the one whose curves
    it borrows; else all of them.

    ``shares``: shares of the accelerators with runs, by name.

    Examples
    --------
    >>> shares = {"h100-80gb-sxm": 0.98, "b200-180gb": 0.81, "gb200-186gb": 1.0}
    >>> [round(share_of_kin(arch, shares), 3) for arch in ("hopper", "volta", "rubin", "cdna3")]
    [0.98, 1.0, 0.9, 0.944]
    """
    known = {REFERENCE: 1.0, **shares}
    family = {arch, die_of(kernels.RELATIVES[arch])[0]} if arch in kernels.RELATIVES else {arch}
    kin = [share for name, share in known.items() if die_of(name)[0] in family] or list(known.values())
    return math.exp(sum(math.log(share) for share in kin) / len(kin))


@cache
def die_of(accelerator: str) -> tuple[str, int]:
    """Return architecture and multiprocessors of an accelerator, which tell its die whatever its memory.

    Examples
    --------
    >>> die_of("h100-80gb-sxm") == die_of("h200-141gb") == die_of("gh200-96gb") != die_of("h20-96gb")
    True
    """
    path = data_folder("hardware_profiles") / "accelerators" / f"{accelerator}.yaml"
    known = read_yaml(path) if path.is_file() else {}
    return str(known.get("arch", "")), int(known.get("multiprocessors", 0))
