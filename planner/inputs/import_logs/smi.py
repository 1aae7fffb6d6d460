"""The text of ``nvidia-smi -q``: what the GPUs of a node are, and how they are doing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from planner.dataclasses import dataclass
from planner.errors import InputError, Problem
from planner.units import MIB, is_whole

_GPU: Final = re.compile(r"^GPU [0-9A-Fa-f:.]+\s*$", re.MULTILINE)
_LINE: Final = re.compile(r"^(\s*)([^:]+?)\s*(?::\s?(.*?))?\s*$")
_SLOWDOWNS: Final = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")

Tree = dict[str, Any]


@dataclass(frozen=True)
class Gpu:
    """One GPU; None is what the text does not say."""

    product: str
    """Name."""
    memory: float
    used: float
    reserved: float
    """What the device reports, what of it is in use, and what its driver keeps, 0 where an old one does not
    say. [byte]"""
    power_limit: float | None
    """Enforced. [W]"""
    sliced: bool
    """Whether it is cut into MIG slices."""
    slowdowns: tuple[str, ...]
    """Reasons why it runs slower than it could, heat and brakes alone."""
    fabric: str
    """Identity of the NVLink domain, empty where it has none."""


@dataclass(frozen=True)
class Smi:
    """A node as its driver tells it."""

    driver: str
    cuda: str
    attached: int
    gpus: tuple[Gpu, ...]


def read_smi(text: str, where: str) -> Smi:
    """Return every GPU of the text.

    Raises `InputError` if there is none, or one has neither name nor memory.
    """
    head, *bodies = _GPU.split(text)
    facts = _tree(head)
    gpus = tuple(_gpu(_tree(body), f"{where}: GPU {number}") for number, body in enumerate(bodies))
    if not gpus:
        raise InputError(Problem(where, "no GPU", "the text of nvidia-smi -q"))
    attached = str(facts.get("Attached GPUs", "")).strip()
    return Smi(
        driver=str(facts.get("Driver Version", "")),
        cuda=str(facts.get("CUDA Version", "")),
        attached=int(attached) if is_whole(attached) else len(gpus),
        gpus=gpus,
    )


def _tree(text: str) -> Tree:
    """Return the fields by name, those further in below the one above them."""
    root: Tree = {}
    stack: list[tuple[int, Tree]] = [(-1, root)]
    for line in text.splitlines():
        match = _LINE.match(line) if line.strip() else None
        if match is None:
            continue
        depth, name, value = len(match[1].expandtabs()), match[2], match[3]
        while stack[-1][0] >= depth:
            stack.pop()
        below = stack[-1][1]
        branch: Tree = {"": value} if value is not None else {}
        below.setdefault(name, branch)
        stack.append((depth, below[name]))
    return {name: _value(branch) for name, branch in root.items()}


def _value(branch: Tree) -> Any:
    if set(branch) <= {""}:
        return branch.get("", "")
    return {name: inner if name == "" else _value(inner) for name, inner in branch.items()}


def _gpu(fields: Tree, where: str) -> Gpu:
    memory = _number(_at(fields, "FB Memory Usage", "Total"))
    product = str(fields.get("Product Name", ""))
    if memory is None or not product:
        raise InputError(Problem(where, "no product name or no memory", "the whole text of nvidia-smi -q"))
    reasons = fields.get("Clocks Event Reasons") or fields.get("Clocks Throttle Reasons") or {}
    power = fields.get("GPU Power Readings") or fields.get("Power Readings") or {}
    fabric = str(_at(fields, "Fabric", "ClusterUUID"))
    return Gpu(
        product=product,
        memory=memory * MIB,
        used=(_number(_at(fields, "FB Memory Usage", "Used")) or 0.0) * MIB,
        reserved=(_number(_at(fields, "FB Memory Usage", "Reserved")) or 0.0) * MIB,
        power_limit=_number(_at(power, "Current Power Limit") or _at(power, "Enforced Power Limit")),
        sliced=_at(fields, "MIG Mode", "Current") == "Enabled",
        slowdowns=tuple(_active(reasons)),
        fabric="" if fabric.strip("0-") in ("", "N/A") else fabric,
    )


def _active(reasons: Any) -> list[str]:
    if not isinstance(reasons, Mapping):
        return []
    found = []
    for name, value in reasons.items():
        state = value.get("", "") if isinstance(value, Mapping) else value
        found += [name] if name in _SLOWDOWNS and state == "Active" else []
        found += _active(value)
    return found


def _at(fields: Any, *path: str) -> Any:
    for name in path:
        fields = fields.get(name, "") if isinstance(fields, Mapping) else ""
    return fields


def _number(text: Any) -> float | None:
    match = re.match(r"[\d.]+", str(text))
    return float(match[0]) if match else None
