"""``--set TRAIT=VALUE``: what a runtime does with the machine, changed by the user."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from planner.cli.reading import Reading, shown
from planner.errors import nearest
from planner.inputs.workload import DTYPE_BYTES
from planner.runtimes._traits import Traits
from planner.units import parse

_MORE_THAN_ZERO: Final = frozenset({"compute_derate", "tp_bandwidth_share", "memory_spread", "cp_slowdown"})
_SHARES: Final = ("_share", "_exposed", "_window", "_derate")
_TRUTH: Final = {
    "yes": True,
    "true": True,
    "on": True,
    "1": True,
    "no": False,
    "false": False,
    "off": False,
    "0": False,
}


def trait_changes(texts: Iterable[str], reading: Reading) -> dict[str, Any]:
    """Return the traits that ``texts`` such as ``attention=flash-2`` set; faults are noted."""
    changes = {}
    known = [field.name for field in fields(Traits)]
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().lower().replace("-", "_")
        if not equals or name not in known:
            found = shown(text) if equals else f"{shown(text)} without a value"
            reading.fault("--set", found, f"TRAIT=VALUE, a trait of {', '.join(known)}", nearest(name, known))
            continue
        parsed = trait_value(name, value.strip(), reading)
        if parsed is not None:
            changes[name] = parsed
    return changes


def trait_value(name: str, text: str, reading: Reading) -> Any:
    """Return the value of a trait in its type, or None where it is wrong."""
    kind = get_type_hints(Traits)[name]
    where = f"--set {name}"
    if get_origin(kind) is Literal:
        return reading.word(where, text, get_args(kind))
    if kind is str:
        return reading.word(where, text, tuple(DTYPE_BYTES))
    if kind is bool:
        word = reading.word(where, text, tuple(_TRUTH))
        return None if word is None else _TRUTH[word]
    return _number(name, where, text, reading)


def _number(name: str, where: str, text: str, reading: Reading) -> float | None:
    most = 1.0 if name.endswith(_SHARES) else math.inf
    try:
        number = parse(text, "byte") if name.endswith("_bytes") and not _is_number(text) else float(text)
    except ValueError:
        number = math.nan
    above = number > 0 or (number == 0 and name not in _MORE_THAN_ZERO)
    if above and number <= most and math.isfinite(number):
        return number
    low = "above 0" if name in _MORE_THAN_ZERO else "from 0"
    reading.fault(where, shown(text), f"a number {low}" + (" to 1" if most == 1.0 else ""))
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
