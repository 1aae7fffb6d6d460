"""Facts about runs that their source states outside the table: read, matched to rows, put in their blanks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from planner.calibrate.runs.table import Run
from planner.dataclasses import dataclass
from planner.inputs.yaml_file import read_yaml

FACTS: Final = Path(__file__).with_name("facts.yaml")
"""The facts that ship."""


@dataclass(frozen=True)
class Fact:
    """What a source states about its runs outside the table."""

    source: str
    """The source's key."""
    where: Mapping[str, str]
    """Column to the text that a row must have; empty means blank, ``> 160`` a number above 160, and ``~``
    begins a regular expression."""
    values: Mapping[str, object]
    """Column to value, taken where the column is blank."""
    stated: str
    """Where it is stated."""
    assumed: bool = False
    """Whether it is inferred, so that rows with it are scored apart."""
    replaces: bool = False
    """Whether it corrects a column that the row fills."""

    def holds(self, run: Run) -> bool:
        """Whether the fact is about this run."""
        return run.source == self.source and all(
            _meets(getattr(run, column), text) for column, text in self.where.items()
        )


def _meets(value: object, text: str) -> bool:
    if text.startswith(">"):
        return isinstance(value, (int, float)) and value > float(text[1:])
    found = str(value or "")
    return bool(re.search(text[1:], found)) if text.startswith("~") else found == text


def facts_by_source(path: Path) -> dict[str, tuple[Fact, ...]]:
    """Read a file of facts that sources state outside the table."""
    facts: dict[str, tuple[Fact, ...]] = {}
    for entry in read_yaml(path)["facts"]:
        where = {column: str(text) for column, text in entry.get("where", {}).items()}
        flags = (bool(entry.get(name, False)) for name in ("assumed", "replaces"))
        fact = Fact(entry["source"], where, entry["values"], entry["stated"], *flags)
        facts[fact.source] = (*facts.get(fact.source, ()), fact)
    return facts


def with_facts(run: Run, known: Mapping[str, tuple[Fact, ...]]) -> tuple[Run, tuple[Fact, ...]]:
    """Return a run with its blanks filled by what its source states elsewhere, and those facts."""
    facts = tuple(fact for fact in known.get(run.source, ()) if fact.holds(run))
    values: dict[str, object] = {
        column: value
        for fact in facts
        for column, value in fact.values.items()
        if fact.replaces or getattr(run, column) in (None, "")
    }
    if any(fact.assumed for fact in facts) and not run.mark:
        values["mark"] = "accelerator not stated"
    return run.with_values(values), facts
