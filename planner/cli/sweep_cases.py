"""From the values of a grid to requests, read as ``planner search`` reads its options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from planner.cli.search import read
from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.fields import FIELDS, default
from planner.inputs.load import load_model
from planner.inputs.load_hardware import hardware_folder, load_hardware
from planner.inputs.shipped import names_and_aliases
from planner.question.job import FILES, Files
from planner.report.plan_file import digest
from planner.search.request import SearchRequest
from planner.sweep.grid import OWN_KEYS, Grid, Options, key_lines
from planner.sweep.row import REFUSED, SweepOutcome
from planner.sweep.run import SweepCase
from planner.sweep.solve import content_key, refused_key

NAMES: Final = {key: name for name, key in OWN_KEYS.items()}
"""Axes whose options are kept under another name."""
SEVERAL: Final = tuple(field.name for field in FIELDS.values() if field.several)
"""Options that can be given several times."""
Tell = Callable[[int], None]


def read_grid(grid: Grid, where: str, tell: Tell) -> list[SweepCase]:
    """Return every case of a grid; values that only some cases cannot have leave a case without request.

    ``tell``: told how many cases are read.

    Raises `InputError` with the faults that every case with a certain value has, or that all cases have.
    """
    read_cases: list[tuple[Options, SearchRequest | None, tuple[Problem, ...]]] = []
    files = Files(cache(load_model), cache(load_hardware))
    once: dict[str, Any] = {}
    for number, options in enumerate(grid.options()):
        tell(number)
        try:
            read_cases.append((options, shared(request_of(options, files), once), ()))
        except InputError as error:
            read_cases.append((options, None, error.problems))
    faults = _faults(grid, [(options, problems) for options, _, problems in read_cases])
    if faults:
        lines = key_lines(Path(where))
        raise InputError([_placed(fault, where, lines) for fault in faults])
    return [_case(options, request, problems) for options, request, problems in read_cases]


def request_of(options: Options, files: Files = FILES) -> SearchRequest:
    """Return the request of a case; ``files`` loads models and clusters.

    Raises `InputError` with every fault of its values.
    """
    given: dict[str, Any] = {NAMES.get(name, name): text for name, text in options.items()}
    for name in SEVERAL:
        if given.get(name) is not None:
            given[name] = given[name].split(",") if name in ("changes", "price") else [given[name]]
    given["price"] = own_prices(given.get("price") or (), str(given["hardware"][0]))
    problems = []
    objective = given.get("objective") or default("objective")
    if objective.strip().lower() == "goodput":
        expected = "one that a sweep ranks by: time, cost, memory or energy"
        problems.append(Problem("--objective", repr(objective), expected, "time"))
    said = {name: value for name, value in given.items() if value is not None}
    try:
        _, request = read(said, files)
    except InputError as error:
        raise InputError([*error.problems, *problems]) from None
    if problems:
        raise InputError(problems)
    return request


def own_prices(prices: Iterable[str], hardware: str) -> list[str]:
    """Return the prices of a grid that are about a case's cluster, without those of others that there are."""
    known = names_and_aliases(hardware_folder())
    of = {text: text.partition("=")[2].strip().lower() for text in prices}
    here = known.get(hardware.lower())
    others = {name for name, path in known.items() if path != here} - {hardware.lower()}
    return [text for text, name in of.items() if name not in others]


def shared(request: SearchRequest, once: dict[str, Any]) -> SearchRequest:
    """Return the request with the model and clusters of equal ones before it, to save memory."""
    clusters = tuple(once.setdefault(digest(cluster), cluster) for cluster in request.clusters)
    return replace(request, model=once.setdefault(digest(request.model), request.model), clusters=clusters)


def _faults(grid: Grid, cases: Sequence[tuple[Options, tuple[Problem, ...]]]) -> list[Problem]:
    """Return the faults that no case without them could mend, each once."""
    if all(problems for _, problems in cases):
        return list(dict.fromkeys(problem for _, problems in cases for problem in problems))
    found: dict[Problem, None] = {}
    for axis in grid.varying:
        for value in grid.axes[axis]:
            sets = [dict.fromkeys(problems) for options, problems in cases if options[axis] == value]
            found |= {problem: None for problem in sets[0] if all(problem in other for other in sets)}
    return list(found)


def _placed(problem: Problem, where: str, lines: Mapping[str, int]) -> Problem:
    """Return a fault of an option as one of the grid's file, with the line of the first key it is about."""
    words = ["--models" if word == "MODEL" else word for word in problem.where.split()]
    named = [word.removeprefix("--").replace("-", "_") for word in words if word.startswith("--")]
    if not words[0].startswith("--"):
        return problem
    line = next((f":{lines[name]}" for name in named if name in lines), "")
    return replace(problem, where=f"{where}{line}: {' '.join(named)}")


def _case(options: Options, request: SearchRequest | None, problems: tuple[Problem, ...]) -> SweepCase:
    if request is not None:
        return SweepCase(options, content_key(request), request)
    reason = "; ".join(map(str, problems))
    return SweepCase(options, refused_key(options, reason), None, SweepOutcome(REFUSED, reason=reason))
