"""Clusters and their parts by name, alias or path: files become one validated profile."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from planner.dataclasses import replace
from planner.errors import InputError, Problem
from planner.inputs.bounded import is_file
from planner.inputs.build import build
from planner.inputs.changed_cluster import changed_cluster
from planner.inputs.fitted import REFERENCE, SHARE, all_constants, fitted, share_of_kin
from planner.inputs.hardware import Accelerator, HardwareProfile
from planner.inputs.record import Record
from planner.inputs.shipped import data_folder, find_file, named_file
from planner.inputs.spoken_cluster import spoken_cluster
from planner.inputs.yaml_file import read_yaml

R = TypeVar("R", bound=Record)

PARTS: Final = {"accelerator": "accelerators", "node": "nodes", "network": "networks"}
"""Parts of a pool, each with the folder of those that ship."""

_LINKS: Final = {"scaleup": "scaleups", "package": "scaleups"}
_PREFIXES: Final = ("aws-", "gcp-", "azure-", "standard_")
_POOL_ACCELERATOR = re.compile(r"^ *-? *accelerator: *([\w.+-]+) *$", re.MULTILINE)


def hardware_folder(part: str = "") -> Path:
    """Return the folder of the shipped clusters, or of one kind of part."""
    return data_folder("hardware_profiles") / part


def cluster_names() -> list[str]:
    """Return the names of the clusters that ship with the planner."""
    return sorted(path.stem for path in hardware_folder().glob("*.yaml"))


def accelerator_names() -> list[str]:
    """Return the names of the accelerators that ship with the planner."""
    return sorted(path.stem for path in hardware_folder("accelerators").glob("*.yaml"))


def load_hardware(text: str, where: str = "hardware") -> HardwareProfile:
    """Return the cluster that ``text`` means.

    ``text``: a name or alias of a shipped cluster, whatever its case, with or without the cloud's name before
    it; the name of an accelerator, which stands for its usual cluster; or a path to a YAML file whose pools
    name parts or hold them; ``where``: the option that ``text`` came from, for messages.

    Raises `InputError` if there is no such cluster, ``text`` has a count, or a file is wrong: all faults at
    once.
    """
    path = _cluster_file(text, where)
    raw = read_yaml(path)
    problems: list[Problem] = []
    sources = _take_sources(raw, str(path), problems)
    raw = _without_base(raw, path)
    pools = raw.get("pools")
    if "sites" in raw:
        expected = "one cluster; sites that slow links join are for `planner search`"
        raise InputError(Problem(f"{path}: sites", "several sites", expected))
    if isinstance(pools, list):
        raw["pools"] = [
            _Parts(path, f"pools[{number}]", sources, problems).pool(pool)
            for number, pool in enumerate(pools)
        ]
    return _checked(HardwareProfile, raw, str(path), sources, problems)


def load_accelerator(text: str, where: str = "accelerator") -> Accelerator:
    """Return the accelerator that ``text`` means: a name, an alias or a path.

    Raises `InputError` if there is none, or its file is wrong; the message has the nearest names, never
    another's numbers.
    """
    return _part_record(Accelerator, _shipped_or_path(text, hardware_folder("accelerators"), where))


def default_cluster(accelerator: str, where: str = "accelerator") -> str:
    """Return the name of the usual cluster of an accelerator, which stands for it where only it is named.

    Raises `InputError` if there is no such accelerator, or its file names no cluster.
    """
    found = load_accelerator(accelerator, where)
    if not found.cluster:
        clusters = ", ".join(clusters_with(found.name)) or "a cluster that holds it"
        raise InputError(Problem(where, repr(accelerator), f"a cluster: {clusters}"))
    return found.cluster


def note_of(text: str) -> str:
    """Return what a cluster's name was taken for, where it is that of an accelerator; empty otherwise."""
    spoken = spoken_cluster(text)
    if spoken is None:
        return ""
    try:
        cluster = default_cluster(spoken.accelerator)
    except InputError:
        return ""
    count = "" if spoken.gpus is None else f", {spoken.gpus} of its accelerators"
    return f"{text} is taken as {cluster}, the usual cluster of {spoken.accelerator}{count}"


def clusters_with(accelerator: str) -> list[str]:
    """Return the names of the shipped clusters that hold an accelerator, given by its name."""
    return sorted(
        path.stem
        for path in hardware_folder().glob("*.yaml")
        if accelerator in _POOL_ACCELERATOR.findall(path.read_text(encoding="utf-8"))
    )


def with_fitted(accelerator: dict[str, Any]) -> dict[str, Any]:
    """Return an accelerator with the constants that training runs gave it, where its file says nothing.

    One without runs takes the share that those of its kin reach in training.
    """
    name, shares = str(accelerator.get("name")), [one for one in all_constants() if one.name == SHARE]
    found: dict[str, Any] = {
        constant.name: {
            "value": str(constant.value),
            "source": constant.source.split()[0],
            "standing": "fitted",
        }
        for constant in fitted("accelerator", name)
    }
    if shares and SHARE not in found and name != REFERENCE:
        share = share_of_kin(str(accelerator.get("arch")), {one.owner: one.value for one in shares})
        source = shares[0].source.split()[0]
        found[SHARE] = {"value": f"{share:.4g}", "source": source, "standing": "estimated"}
    return found | accelerator


def _without_base(raw: dict[str, Any], path: Path, after: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return a cluster with what its base has written out; ``after`` are the files that led here."""

    def content(text: str) -> dict[str, Any]:
        beside = path.parent / text
        try:
            base = (
                beside
                if beside.suffix in {".yaml", ".yml"} and is_file(beside)
                else _cluster_file(text, "cluster")
            )
        except InputError as error:
            raise InputError([replace(fault, where=f"{path}: base") for fault in error.problems]) from None
        if base.resolve() in {one.resolve() for one in (path, *after)}:
            raise InputError(
                Problem(f"{path}: base", repr(text), "a cluster that does not lead back to this one")
            )
        inner, problems = read_yaml(base), list[Problem]()
        inner = _cited(inner, _take_sources(inner, str(base), problems))
        return _without_base(inner, base, (*after, path))

    return changed_cluster(raw, path, frozenset(PARTS), content)


def _cluster_file(text: str, where: str) -> Path:
    try:
        return _shipped_or_path(text, hardware_folder(), where)
    except InputError:
        spoken = spoken_cluster(text)
        if spoken is None:
            raise
        if spoken.gpus is not None:
            expected = "a cluster or an accelerator without a number, since how many is said elsewhere"
            raise InputError(Problem(where, repr(text), expected, spoken.accelerator)) from None
        return hardware_folder() / f"{default_cluster(spoken.accelerator, where)}.yaml"


def _plain(text: str) -> str:
    return text.strip().lower().replace(" ", "-")


def _shipped_or_path(text: str, folder: Path, where: str) -> Path:
    plain = _plain(text)
    bare = next((plain.removeprefix(prefix) for prefix in _PREFIXES if plain.startswith(prefix)), plain)
    if bare != plain and named_file(bare, folder) is not None:
        return find_file(bare, folder, where)
    return find_file(text, folder, where)


def _take_sources(raw: dict[str, Any], where: str, problems: list[Problem]) -> dict[str, str]:
    """Remove the table of sources from a file and return it."""
    table = raw.pop("sources", {})
    if isinstance(table, Mapping) and all(isinstance(address, str) for address in table.values()):
        return {str(name): address for name, address in table.items()}
    problems.append(Problem(f"{where}: sources", str(table)[:60], "a mapping of short names to addresses"))
    return {}


def _part_record(kind: type[R], path: Path) -> R:
    raw = _with_curves(read_yaml(path), path.parent)
    problems: list[Problem] = []
    sources = _take_sources(raw, str(path), problems)
    return _checked(kind, raw, str(path), sources, problems)


def _checked(kind: type[R], raw: Any, where: str, sources: Mapping[str, str], problems: list[Problem]) -> R:
    """Build a record and raise its faults together with those found before, each place told once."""
    try:
        record = build(kind, raw, where, sources)
    except InputError as error:
        told = {problem.where for problem in problems}
        problems = [*problems, *(fault for fault in error.problems if fault.where not in told)]
    if problems:
        raise InputError(problems)
    return record


class _Parts:
    """The parts of one pool: names and paths become the mappings that their files hold."""

    def __init__(self, path: Path, place: str, sources: Mapping[str, str], problems: list[Problem]) -> None:
        self.path, self.place, self.sources, self.problems = path, place, sources, problems

    def pool(self, raw: Any) -> Any:
        """Return a pool with its parts filled in."""
        if not isinstance(raw, dict):
            return raw
        pool = raw | {key: self.part(key, raw[key], PARTS[key]) for key in PARTS if key in raw}
        if isinstance(pool.get("accelerator"), dict):
            pool["accelerator"] = with_fitted(pool["accelerator"])
        return pool

    def part(self, key: str, value: Any, folder: str) -> Any:
        """Return the mapping that a name, a path, or a mapping with a ``base`` stands for."""
        value = _with_curves(value, self.path.parent)
        if isinstance(value, str):
            value = self.file(key, value, folder)
        elif isinstance(value, dict) and isinstance(value.get("base"), str):
            base = self.file(f"{key}.base", value["base"], folder)
            own = {name: content for name, content in value.items() if name != "base"}
            value = _curves_of_base(folder, base) | base | own if isinstance(base, dict) else value
        if isinstance(value, dict):
            value = value | {
                link: self.part(f"{key}.{link}", value[link], _LINKS[link])
                for link in _LINKS
                if link in value
            }
        return value

    def file(self, key: str, text: str, folder: str) -> Any:
        """Return what the file of a part holds, its sources written out; tell a fault and return the text."""
        beside = self.path.parent / text
        try:
            if text.endswith((".yaml", ".yml")) and is_file(beside):
                path = beside
            else:
                path = _shipped_or_path(text, hardware_folder(folder), key.split(".")[-1])
            raw = _with_curves(read_yaml(path), path.parent)
        except InputError as error:
            self.problems += [self._placed(problem, key) for problem in error.problems]
            return text
        return _cited(raw, _take_sources(raw, str(path), self.problems))

    def _placed(self, problem: Problem, key: str) -> Problem:
        if problem.where != key.split(".")[-1]:
            return problem
        return Problem(f"{self.path}: {self.place}.{key}", problem.found, problem.expected, problem.nearest)


def _with_curves(value: Any, folder: Path) -> Any:
    """Return a part whose curve file, where it lies beside the part's own, is named in full."""
    name = value.get("curves") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name.endswith((".yaml", ".yml")):
        return value
    beside = folder / name
    return value | {"curves": str(beside.resolve())} if is_file(beside) else value


def _curves_of_base(folder: str, base: Mapping[str, Any]) -> dict[str, str]:
    """Kernel curves that a changed accelerator borrows: those of the one that it is based on, if any."""
    measured = hardware_folder("curves") / f"{base.get('name')}.yaml"
    return {"curves": measured.stem} if folder == PARTS["accelerator"] and is_file(measured) else {}


def _cited(value: Any, sources: Mapping[str, str]) -> Any:
    """Return a part with the short names of its sources replaced by what they stand for."""
    if isinstance(value, list):
        return [_cited(item, sources) for item in value]
    if not isinstance(value, dict):
        return value
    cited = {key: _cited(item, sources) for key, item in value.items()}
    if "value" in cited and isinstance(cited.get("source"), str):
        cited["source"] = sources.get(cited["source"], cited["source"])
    return cited


def shipped_profiles() -> Iterator[HardwareProfile]:
    """Yield every cluster that ships, in the order of their names."""
    for name in cluster_names():
        yield load_hardware(name)
