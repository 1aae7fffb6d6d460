"""How often machines fail: profiles that ship, and a site's own log of failures."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from planner.errors import InputError, Problem
from planner.inputs.bounded import table_lines
from planner.inputs.build import build
from planner.inputs.record import Positive, Record, Seconds, Share, Sourced
from planner.inputs.shipped import data_folder, find_file
from planner.inputs.yaml_file import read_yaml
from planner.units import HOUR


def _positive(value: Sourced | None) -> Sourced | None:
    if value is not None and not value > 0:
        raise ValueError("more than zero")
    return value


def _below_one(value: Sourced) -> Sourced:
    if not value < 1:
        raise ValueError("a share below 1")
    return value


class FailureProfile(Record):
    """How often accelerators stop a job.

    ``device_mtbf`` is the mean time between the failures that one accelerator, its share of the node and of
    the network cause; ``beyond_node`` the share of failures that take more than one node at once, so that no
    copy on another node is sure to be left; ``planned_every`` the time between planned stops of a job;
    ``causes`` the failures that were counted, by what failed; ``doubt`` how the rate may be wrong, in words.
    """

    name: str
    aliases: tuple[str, ...] = ()
    note: str = ""
    device_mtbf: Annotated[Seconds, AfterValidator(_positive)]
    beyond_node: Annotated[Share, AfterValidator(_below_one)]
    planned_every: Annotated[Seconds, AfterValidator(_positive)] | None = None
    causes: dict[str, Positive] = Field(default_factory=dict)
    doubt: str = ""
    sources: dict[str, str] = Field(default_factory=dict)


def failure_names() -> list[str]:
    """Return the names of the profiles of failures that ship."""
    return sorted(path.stem for path in data_folder("failure_profiles").glob("*.yaml"))


def load_failures(text: str, where: str = "failures") -> FailureProfile:
    """Return a profile of failures: one that ships, a YAML of one's own, or a log of failures as CSV.

    Raises `InputError` if there is none, or its file is wrong: all faults at once.
    """
    word = text.strip().lower()
    if word.endswith(".csv"):
        return failures_of_log(Path(text.strip()))
    if word == "acme":
        raise InputError(
            Problem(
                where,
                repr(text),
                "a rate of failures: Acme's paper (arXiv:2403.07648) prints shares of jobs and time alone; "
                f"give a log as CSV, or one of {', '.join(failure_names())}",
                "meta-a100",
            )
        )
    path = find_file(text, data_folder("failure_profiles"), where)
    raw: dict[str, Any] = read_yaml(path)
    return build(FailureProfile, raw, str(path))


def failures_of_log(path: Path) -> FailureProfile:
    """Return the rate that a log of failures shows.

    The CSV has the columns ``hours`` (from the start of what was watched until the failure), ``gpus`` (that
    were watched), and maybe ``nodes`` (lost at once). The last row may have no failure: its ``nodes`` is 0,
    and it says how long was watched.

    Raises `InputError` if a column or a number is missing or wrong, or there is no failure.
    """
    with table_lines(path) as lines:
        rows = list(csv.DictReader(lines))
    missing = [name for name in ("hours", "gpus") if not rows or name not in rows[0]]
    if missing:
        raise InputError(
            [Problem(str(path), f"no column {name}", "hours, gpus and maybe nodes") for name in missing]
        )
    read = [_numbers(row, f"{path}:{number}") for number, row in enumerate(rows, 2)]
    failed = [row for row in read if row[2] > 0]
    if not failed:
        raise InputError(Problem(str(path), "no failure", "one at least, or no --failures"))
    watched = max(row[0] for row in read)
    gpus = sum(row[1] for row in read) / len(read)
    beyond = sum(row[2] > 1 for row in failed) / len(failed)
    beyond = min(beyond, 1 - 1 / (len(failed) + 1))
    mtbf = watched * HOUR * gpus / len(failed)
    raw = {
        "name": path.stem,
        "note": f"{len(failed)} failures in {watched:g} h",
        "device_mtbf": {"value": f"{mtbf} s", "source": str(path), "standing": "measured"},
        "beyond_node": {"value": f"{beyond}", "source": str(path), "standing": "measured"},
    }
    return build(FailureProfile, raw, str(path))


def _numbers(row: dict[str, str], where: str) -> tuple[float, float, float]:
    found = []
    for name, least in (("hours", 0.0), ("gpus", 1.0), ("nodes", 0.0)):
        text = row.get(name)
        try:
            number = 1.0 if name == "nodes" and not text else float(text or "")
        except ValueError:
            number = -1.0
        if not least <= number < 1e12:
            raise InputError(Problem(f"{where}: {name}", repr(text), f"a number from {least:g}"))
        found.append(number)
    return found[0], found[1], found[2]
