"""Traits that a plan does not run as they are set, and what runs in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from planner import numeric
from planner.dataclasses import dataclass
from planner.inputs.hardware import HardwareProfile
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Mask
from planner.runtimes.settings import Changes, Value
from planner.techniques.methods import METHODS


class TrainingTask(Protocol):
    """What is trained, and on what: of a job, all that decides which traits a plan runs."""

    @property
    def model(self) -> ModelSpec: ...

    @property
    def workload(self) -> Workload: ...

    @property
    def hardware(self) -> HardwareProfile: ...


def never(plan: Plan, job: TrainingTask) -> Mask:
    """Whether a trait decides nothing of a plan: of none."""
    return False


@dataclass(frozen=True)
class Idle:
    """One trait that some plans leave out: price, files and answers all ask here."""

    trait: str
    """By flat name."""
    instead: Value
    """The value that runs in its place."""
    when: Callable[[Plan, TrainingTask], bool]
    """Whether a plan runs that value, from plan and job: by names, and by no degree."""
    reason: str
    """Why, in words."""
    moot: Callable[[Plan, TrainingTask], Mask] = never
    """Which plans have degrees with which the trait decides nothing there: files leave it out, and the price
    is the same."""
    only: Value | None = None
    """The one value that is left out; None for each but ``instead``."""

    def concerns(self, value: Value) -> bool:
        """Whether a value of the trait may be left out."""
        return value != self.instead and self.only in (None, value)


def _adapts_nothing(plan: Plan, job: TrainingTask) -> bool:
    return not METHODS[job.workload.method].adapts


ADAPTER_DROPOUT: Final = Idle("adapter_dropout", False, _adapts_nothing, "no adapters are trained")
ADAPTERS: Final = (
    ADAPTER_DROPOUT,
    Idle("adapter_all_to_all", False, _adapts_nothing, "no adapters are trained"),
)


def left_out(concerned: Iterable[Idle], plan: Plan, job: TrainingTask) -> list[Idle]:
    """Return which of some traits a plan, or each of a batch, runs with another value than they have."""
    return [one for one in concerned if one.when(plan, job) and not numeric.all(one.moot(plan, job))]


def in_effect(idle: Iterable[Idle], plan: Plan, job: TrainingTask, changes: Changes) -> Changes:
    """Return the changed traits that a scalar plan runs: no expert's switch without experts, and the like."""
    known = [one for one in idle if one.trait in changes and one.concerns(changes[one.trait])]
    names = {one.trait for one in known if one.when(plan, job) or numeric.all(one.moot(plan, job))}
    return {name: value for name, value in changes.items() if name not in names}
