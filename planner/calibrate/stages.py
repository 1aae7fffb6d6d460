"""What is fitted to which runs: stages, read from the file beside the constants that they give."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, PositiveFloat, field_validator

from planner.calibrate.constants import SCOPES, Key
from planner.calibrate.fit import SOFT, Errors, Factor, log_errors, memory_log_errors, outcome_log_chances
from planner.calibrate.overlay import faults_of
from planner.calibrate.runs.defaults import PricedRun
from planner.calibrate.stage import Stage
from planner.errors import InputError, Problem
from planner.inputs.build import build
from planner.inputs.fitted import fitted_file
from planner.inputs.record import Flag, Record
from planner.inputs.yaml_file import read_yaml
from planner.runtimes import plain_runtimes

__all__ = ["Stage", "neutral_values", "read_stages", "stages"]

MEASURES: Final[Mapping[str, Errors]] = {
    "time": log_errors,
    "memory": memory_log_errors,
    "outcome": outcome_log_chances,
}
"""What of the runs is fitted: their time, their memory, or whether they ran out of it."""

Scope = Literal["accelerator", "site", "era", "runtime"]
Names = tuple[str, ...]


class WantedRuns(Record):
    """What a run must be to belong to a stage: all that is given."""

    sources: Names = ()
    eras: Names = ()
    """One of these, where a star stands for anything."""
    runtimes: Names = ()
    """One of these."""
    task: Literal["pretrain", "sft", "lora"] | None = None
    """``pretrain``, ``sft`` or ``lora``."""
    experts: Flag | None = None
    """Whether its model has any."""
    tp: int | None = None
    pp: int | None = None
    """Its tensor-parallel ranks, and its stages."""
    but_num_gpus: int | None = None
    """A number of accelerators that it must not have."""
    traits: Mapping[str, Any] = Field(default_factory=dict)
    """Traits that its runtime must have, by flat name."""
    weighed: Literal[True] | None = None
    """Its memory was read from a counter that the row names."""

    def holds(self, priced: PricedRun) -> bool:
        """Whether a run is so."""
        return all(self._answers(priced))

    def _answers(self, priced: PricedRun) -> Iterator[bool]:
        run = priced.run
        if self.sources:
            yield any(fnmatchcase(run.source, name) for name in self.sources)
        if self.eras:
            yield any(fnmatchcase(priced.era, name) for name in self.eras)
        if self.runtimes:
            yield priced.runtime.name in self.runtimes
        if self.task is not None:
            yield priced.task == self.task
        if self.experts is not None:
            yield bool(run.experts) == self.experts
        for degree, wanted in (("tp", self.tp), ("pp", self.pp)):
            yield wanted is None or bool(getattr(priced.plan, degree) == wanted)
        if self.but_num_gpus is not None:
            yield run.num_gpus != self.but_num_gpus
        if self.weighed:
            yield bool(run.peak_mem_gib and run.memory_kind)
        for name, value in self.traits.items():
            yield priced.runtime.traits.value_of(name) == value


GROUPS: Final[Mapping[str, Callable[[PricedRun], object]]] = {
    "framework": lambda priced: priced.run.framework,
    "source": lambda priced: priced.run.source,
    "model": lambda priced: priced.run.model,
    "hidden": lambda priced: priced.run.hidden,
    "num_gpus": lambda priced: priced.run.num_gpus,
    "tp": lambda priced: priced.plan.tp,
    "pp": lambda priced: priced.plan.pp,
    "cp": lambda priced: priced.plan.cp,
    "ep": lambda priced: priced.plan.ep,
}
"""What runs of one group may have in common."""


class ToFit(Record):
    """A constant of a stage; exactly one of accelerator, site, era and runtime says whose."""

    accelerator: str = ""
    site: str = ""
    era: str = ""
    runtime: str = ""
    """Whose it is."""
    name: str
    """The field that it sets."""
    meaning: str
    """What it stands for, with its unit."""
    start: PositiveFloat
    """Value before any run has spoken, in that unit."""
    width: PositiveFloat
    """Spread of its logarithm then. [-]"""
    kin: str = ""
    """Constants of one name are drawn to one mean."""
    shared: tuple[Mapping[Scope, str], ...] = ()
    """Other owners that take its value."""

    @property
    def keys(self) -> tuple[Key, ...]:
        """Scope, owner and name of all constants that take the value."""
        own = {scope: str(getattr(self, scope)) for scope in SCOPES if getattr(self, scope)}
        others = (pair for owners in self.shared for pair in owners.items())
        return tuple((scope, owner, self.name) for scope, owner in (*own.items(), *others))

    def factor(self) -> Factor:
        """Return it as the fit takes it."""
        key, *shared = self.keys
        return Factor(key, self.start, self.meaning, self.width, self.kin, shared=tuple(shared))


class StageEntry(Record):
    """A stage as its file has it."""

    name: str
    """For the report."""
    runs: tuple[WantedRuns, ...] = Field(min_length=1)
    """Which runs belong to it: those of any of these cases."""
    group: tuple[
        Literal["framework", "source", "model", "hidden", "num_gpus", "tp", "pp", "cp", "ep"], ...
    ] = Field(min_length=1)
    """What runs of one group have in common, for the error out of group."""
    source: str = Field(min_length=1)
    """Where the runs stand."""
    measure: Literal["time", "memory", "outcome"] = "time"
    """What of them is fitted."""
    soft: PositiveFloat = SOFT
    """Error at which a run begins to count less. [-]"""
    constants: tuple[ToFit, ...] = Field(min_length=1)
    """What is fitted."""

    @field_validator("runs", mode="before")
    @classmethod
    def _one_or_several(cls, raw: Any) -> Any:
        return [raw] if isinstance(raw, dict) else raw

    def wants(self, priced: PricedRun) -> bool:
        """Whether a run belongs to the stage."""
        return any(case.holds(priced) for case in self.runs)

    def group_of(self, priced: PricedRun) -> Hashable:
        """Return what a run has in common with those of its group."""
        found = tuple(GROUPS[name](priced) for name in self.group)
        return found if len(found) > 1 else str(found[0])

    def stage(self) -> Stage:
        """Return it as the fit takes it."""
        factors = tuple(constant.factor() for constant in self.constants)
        measure = MEASURES[self.measure]
        return Stage(self.name, self.wants, factors, self.group_of, self.source, measure, self.soft)


class StagesFile(Record):
    """All stages, in the order in which they build on one another."""

    stages: tuple[StageEntry, ...]


@cache
def stages() -> tuple[Stage, ...]:
    """Return the stages that ship, in order."""
    return read_stages(fitted_file("stages"))


def read_stages(path: Path) -> tuple[Stage, ...]:
    """Return the stages of a file, in order.

    Raises
    ------
    InputError
        With a problem for each fault.
    """
    read = build(StagesFile, read_yaml(path), str(path))
    problems: list[Problem] = []
    seen: set[Key] = set()
    for number, entry in enumerate(read.stages):
        for place, constant in enumerate(entry.constants):
            where = f"{path}: stages[{number}].constants[{place}]"
            problems += _faults(constant, where, seen)
            seen.update(constant.keys)
    if problems:
        raise InputError(problems)
    return tuple(entry.stage() for entry in read.stages)


def _faults(constant: ToFit, where: str, seen: set[Key]) -> Iterator[Problem]:
    """Yield what is wrong with a constant beyond its types: its owners, its name, a second place."""
    own = [scope for scope in SCOPES if getattr(constant, scope)]
    if len(own) != 1:
        found = " and ".join(own) or "none of them"
        yield Problem(where, found, f"exactly one of {', '.join(SCOPES)}")
    for scope, owner, name in constant.keys:
        yield from faults_of(scope, owner, name, where)
        if (scope, owner, name) in seen:
            yield Problem(where, f"{name} of {scope} {owner} again", "each constant in one stage")


def neutral_values(known: Iterable[Stage]) -> dict[Key, float]:
    """Return the plain value of every constant of an accelerator, 1, and of a runtime: a fit starts there.

    Those of eras and sites are in no run before they are fitted.
    """
    keys = [key for stage in known for factor in stage.factors for key in factor.keys]
    plain = {
        (scope, owner, name): float(plain_runtimes()[owner].traits.value_of(name))
        for scope, owner, name in keys
        if scope == "runtime"
    }
    return plain | {key: 1.0 for key in keys if key[0] == "accelerator"}
