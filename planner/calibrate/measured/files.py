"""The files of a measured profile: the profile, its curves, and how good the fits are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.calibrate.kernels.files import render
from planner.calibrate.measured.cluster import (
    accelerator_part,
    bare_file,
    cluster_file,
    driver_part,
    known_accelerator,
    unknown_accelerator,
    with_overlap,
)
from planner.calibrate.measured.curves import curve_file, source_text
from planner.calibrate.measured.rows import Raw, sheet_from, sheet_of
from planner.dataclasses import dataclass
from planner.inputs.kernels import GENERIC, RELATIVES
from planner.inputs.load_hardware import hardware_folder, load_hardware
from planner.inputs.yaml_file import read_yaml

CURVES, RAW = ".curves.yaml", ".raw.jsonl"


@dataclass(frozen=True)
class Machine:
    """What the files are about."""

    product: str
    """Name of the device as its driver says it."""
    memory: float
    """What the driver reports. [byte]"""
    multiprocessors: float
    """Of the device. [-]"""
    provenance: Mapping[str, str]
    """Date, device and versions."""
    cluster: str = ""
    """Name of the cluster whose node and network it has; empty for the accelerator's usual one."""
    usable: float | None = None
    """What of that a process may have; None where only one of the two is known. [byte]"""


@dataclass(frozen=True)
class MeasuredFiles:
    """Texts by path, the fits as rows, and notes."""

    texts: Mapping[Path, str]
    fits: tuple[dict[str, Any], ...]
    notes: tuple[str, ...]


def beside(out: Path, ending: str) -> Path:
    """Return the path of a file that belongs to a profile.

    Examples
    --------
    >>> str(beside(Path("here/mine.yaml"), CURVES))
    'here/mine.curves.yaml'
    """
    return out.with_name(out.name.removesuffix(".yaml").removesuffix(".yml") + ending)


def profile_files(out: Path, machine: Machine, rows: Sequence[Raw]) -> MeasuredFiles:
    """Fit every curve and compose the profile.

    Raises
    ------
    InputError
        If too little was measured, or the cluster is unknown.
    """
    name = beside(out, "").name
    known = known_accelerator(machine.product)
    cluster = machine.cluster or (known.cluster if known else "")
    sheet = sheet_of(known) if known else sheet_from(rows, machine.multiprocessors)
    lender = RELATIVES.get(known.arch, GENERIC) if known else GENERIC
    standing_in = read_yaml(hardware_folder("curves") / f"{lender}.yaml")
    fitted = curve_file(known.name if known else name, rows, sheet, machine.provenance, standing_in)
    source = source_text(machine.provenance)
    source = f"{beside(out, RAW).name} ({source})"
    curves = beside(out, CURVES).resolve()
    if known:
        part = accelerator_part(known, rows, machine.memory, curves.name)
    else:
        part = unknown_accelerator((name, machine.product), sheet, machine.memory, curves.name)
    part |= driver_part(machine.memory, machine.usable)
    if cluster:
        content, found = cluster_file(name, part, load_hardware(cluster, "--cluster"), rows, source)
    else:
        content, found = bare_file(name, part, rows, source), []
    texts = {curves: render(with_overlap(fitted.content, rows)), out: render(content)}
    return MeasuredFiles(texts, tuple(fit_rows(fitted.content)), (*fitted.notes, *found))


def fit_rows(content: Mapping[str, Any], place: str = "") -> list[dict[str, Any]]:
    """Return one row for each fitted curve: points, and the error of a fit that did not see the point."""
    if content.get("standing", "measured") != "measured":
        return []
    if "held_out_error" in content:
        row = {
            "curve": place,
            "points": content["rows"],
            "mean_error": content["mean_error"],
            "held_out_error": content["held_out_error"],
            "one_rate_error": content["naive_error"],
        }
        inner = fit_rows({key: content[key] for key in ("operators", "backward") if key in content}, place)
        return [row, *inner]
    found = [
        fit_rows(value, f"{place} {key}".strip()) for key, value in content.items() if isinstance(value, dict)
    ]
    return [row for rows in found for row in rows]
