"""Read eras from their files: one for each program, with all faults at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from planner.calibrate.eras.record import Era, EraProgram, Where
from planner.calibrate.eras.shared import SHARED, SharedTraits, read_shared
from planner.calibrate.eras.words import apart
from planner.errors import InputError, Problem, nearest
from planner.inputs.build import build
from planner.inputs.shipped import data_folder
from planner.inputs.yaml_file import read_yaml
from planner.runtimes import plain_runtimes
from planner.runtimes.traits import over

_TRAITS: Final = ("traits", "half_traits", "sequence_traits", "hopper_traits")
_MERGED: Final = (*_TRAITS, "blanks")
_OWN: Final = ("where", "about", "measured")
"""What an era does not take from the one that it is like."""

Raw = dict[str, Any]


@cache
def shipped() -> tuple[EraProgram, ...]:
    """Return the programs that ship with the planner, by name."""
    return read_programs(data_folder("hardware_profiles") / "eras")


def read_programs(folder: Path) -> tuple[EraProgram, ...]:
    """Return the programs of a folder's files, by name.

    Raises
    ------
    InputError
        With a problem for each fault of any file, of two eras of a program that nothing tells apart, and of
        two programs that have a name or a word in common.
    """
    shared = read_shared(folder / SHARED)
    problems: list[Problem] = []
    raws = {path: _raw(path, problems) for path in sorted(folder.glob("*.yaml"))}
    eras = {name: entry for raw in raws.values() for name, entry in _entries(raw).items()}
    found = []
    for path, raw in raws.items():
        try:
            found.append(_program(path, raw, eras, shared))
        except InputError as error:
            problems += error.problems
    if not problems:
        problems += _clashes(folder, found)
    if problems:
        raise InputError(problems)
    return tuple(found)


def _raw(path: Path, problems: list[Problem]) -> Raw:
    try:
        return read_yaml(path)
    except InputError as error:
        problems += error.problems
        return {}


def _entries(raw: Raw) -> Raw:
    eras = raw.get("eras")
    entries = eras if isinstance(eras, dict) else {}
    return {str(name): entry if isinstance(entry, dict) else {} for name, entry in entries.items()}


def _program(path: Path, raw: Raw, eras: Raw, shared: SharedTraits) -> EraProgram:
    """Return the program of a file, whose eras may be like some of ``eras``."""
    problems: list[Problem] = []
    entries = []
    for name, own in _entries(raw).items():
        place = f"{path}: eras.{name}"
        entry = _whole(own, eras, shared, place, problems, (name,))
        try:
            entries.append(build(Era, {"name": name, **entry}, place))
        except InputError as error:
            problems += error.problems
        else:
            problems += _unknown_runtime(entries[-1], place)
    head = {name: value for name, value in raw.items() if name != "eras"}
    try:
        program = build(EraProgram, {"name": path.stem, **head, "eras": entries}, str(path))
    except InputError as error:
        raise InputError([*problems, *(error.problems if entries or not problems else ())]) from None
    if problems:
        raise InputError(problems)
    return program


def _whole(
    own: Raw, eras: Raw, shared: SharedTraits, place: str, problems: list[Problem], above: tuple[str, ...]
) -> Raw:
    """Return what an era's file says of it, traits in full, over what the era says that it is like."""
    start = _like(own["like"], eras, shared, f"{place}.like", problems, above) if "like" in own else {}
    kept = {name: value for name, value in start.items() if name not in _OWN}
    mine = {name: value for name, value in own.items() if name != "like"}
    for name in _TRAITS:
        if name in mine:
            mine[name] = shared.traits(mine[name], f"{place}.{name}", problems)
    both = {
        name: over(kept[name], mine[name])
        for name in _MERGED
        if isinstance(kept.get(name), dict) and isinstance(mine.get(name), dict)
    }
    return kept | mine | both


def _like(
    parent: object,
    eras: Raw,
    shared: SharedTraits,
    place: str,
    problems: list[Problem],
    above: tuple[str, ...],
) -> Raw:
    """Return all that is said of another era; its own faults are told where it stands."""
    known = [name for name in eras if name not in above]
    if not isinstance(parent, str) or parent not in known:
        near = nearest(str(parent), known)
        problems.append(Problem(place, repr(parent), "another era, which is not like this one", near))
        return {}
    return _whole(eras[parent], eras, shared, place, [], (*above, parent))


def _unknown_runtime(era: Era, place: str) -> list[Problem]:
    known = plain_runtimes()
    if era.runtime in known:
        return []
    expected = f"one of {', '.join(known)}"
    return [Problem(f"{place}.runtime", repr(era.runtime), expected, nearest(era.runtime, known))]


def _clashes(folder: Path, programs: list[EraProgram]) -> Iterator[Problem]:
    """Yield what is wrong between programs: unknown ones, shared names and words, eras that look alike."""
    names = [program.name for program in programs]
    for program in programs:
        place = f"{folder / program.name}.yaml"
        for other in program.over:
            if other not in names or other == program.name:
                yield Problem(f"{place}: over", repr(other), "another program's file", nearest(other, names))
        yield from _alike(program, place)
    for what, owned in (
        ("words", {program.name: program.words for program in programs}),
        ("eras", {program.name: tuple(era.name for era in program.eras) for program in programs}),
    ):
        for first, second in combinations(owned, 2):
            for name in sorted(set(owned[first]) & set(owned[second])):
                place = f"{folder / second}.yaml: {what}"
                yield Problem(place, repr(name), f"a name of its own: {first}.yaml has it too")


def _alike(program: EraProgram, place: str) -> Iterator[Problem]:
    """Yield the pairs of a program's eras that a run could meet equally."""
    for first, second in combinations(program.eras, 2):
        pairs = [(a, b) for a in first.where for b in second.where if a.rank == b.rank and not exclude(a, b)]
        if pairs:
            expected = f"conditions under `where` that tell it from {first.name}, or more of them"
            yield Problem(f"{place}: eras.{second.name}", "as many conditions, which both can hold", expected)


def exclude(first: Where, second: Where) -> bool:
    """Whether no run meets both conditions."""
    generations = {first.generation, second.generation} - {None}
    alone = any(a.alone and (b.words or b.versions or b.years) for a, b in ((first, second), (second, first)))
    return (
        alone
        or len(generations) > 1
        or bool(first.versions and second.versions and apart(first.version_ranges, second.version_ranges))
        or bool(first.years and second.years and apart(first.year_ranges, second.year_ranges))
    )
