"""Arguments of Megatron-LM that its parser turns into numbers: what Python cannot turn is a fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from planner.runtimes.imports._sheet import Sheet

EXPECTED: Final = {int: "a whole number", float: "a number"}


@cache
def _kinds() -> Mapping[str, type[int] | type[float]]:
    """Return the type of each argument with one number."""
    text = Path(__file__).with_name("megatron_kinds.txt").read_text(encoding="utf-8")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    types = {"int": int, "float": float}
    return {f"--{name}": types[kind] for kind, *names in lines for name in names}


def number_kinds(sheet: Sheet, said: Iterable[tuple[str, object]]) -> None:
    """Note a fault for each argument whose text is no number; a variable is left to the shell.

    Values that a later argument replaces count too, since the parser turns each.
    """
    for key, value in dict.fromkeys(said):
        kind = _kinds().get(key)
        if kind is None or not isinstance(value, str) or not value or "$" in value:
            continue
        try:
            kind(value)
        except ValueError:
            sheet.fault(key, repr(value[:60]), EXPECTED[kind])
