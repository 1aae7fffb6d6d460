"""What a runtime does with the machine: a stack of records by subject, read by the cost model.

A trait belongs to a runtime and its era, never to a model or a run. Defaults are today's Megatron-core.
Runtimes, eras, fitted constants, plan files and users know each trait by one flat name.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from planner.dataclasses import dataclass, field, fields, replace
from planner.runtimes.traits.adapters import AdapterTraits
from planner.runtimes.traits.allocator import AllocatorTraits
from planner.runtimes.traits.attention import AttentionTraits
from planner.runtimes.traits.context import ContextTraits
from planner.runtimes.traits.data import DataTraits
from planner.runtimes.traits.engine import EngineTraits
from planner.runtimes.traits.experts import ExpertTraits
from planner.runtimes.traits.host import HostTraits
from planner.runtimes.traits.kernels import KernelTraits
from planner.runtimes.traits.loss import LossTraits
from planner.runtimes.traits.low_bit import LowBitTraits
from planner.runtimes.traits.optimizer import StateTraits
from planner.runtimes.traits.pipeline import PipelineTraits
from planner.runtimes.traits.recompute import RecomputeTraits
from planner.runtimes.traits.tensor import TensorTraits
from planner.runtimes.traits.trait import Trait, declared


@dataclass(frozen=True)
class Traits:
    """Behaviour that changes time or memory, by subject."""

    attention: AttentionTraits = field(default_factory=AttentionTraits)
    kernels: KernelTraits = field(default_factory=KernelTraits)
    loss: LossTraits = field(default_factory=LossTraits)
    optimizer: StateTraits = field(default_factory=StateTraits)
    adapters: AdapterTraits = field(default_factory=AdapterTraits)
    low_bit: LowBitTraits = field(default_factory=LowBitTraits)
    recompute: RecomputeTraits = field(default_factory=RecomputeTraits)
    engine: EngineTraits = field(default_factory=EngineTraits)
    pipeline: PipelineTraits = field(default_factory=PipelineTraits)
    tensor: TensorTraits = field(default_factory=TensorTraits)
    context: ContextTraits = field(default_factory=ContextTraits)
    experts: ExpertTraits = field(default_factory=ExpertTraits)
    data: DataTraits = field(default_factory=DataTraits)
    host: HostTraits = field(default_factory=HostTraits)
    allocator: AllocatorTraits = field(default_factory=AllocatorTraits)

    def with_values(self, **values: Any) -> Traits:
        """Return the stack with other values of some traits, by flat name.

        Where a kind is among them, such as that of the loss, so is all that it brings.

        Raises
        ------
        TypeError
            If there is no trait of a name.
        """
        changes: dict[str, dict[str, Any]] = {}
        for name, value in values.items():
            if name not in TRAITS:
                raise TypeError(f"no trait {name}")
            changes.setdefault(TRAITS[name].subject, {})[TRAITS[name].field] = value
            if TRAITS[name].brings:
                changes[TRAITS[name].subject] = TRAITS[name].brought(value) | changes[TRAITS[name].subject]
        return replace(self, **{part: replace(getattr(self, part), **own) for part, own in changes.items()})

    def value_of(self, name: str) -> Any:
        """Return the value of a trait, by flat name."""
        return GETTERS[name](self)

    def flat(self) -> dict[str, Any]:
        """Return all values by flat name."""
        return {name: getter(self) for name, getter in GETTERS.items()}


def _all() -> Mapping[str, Trait]:
    stack = Traits()
    found = [one for part in fields(stack) for one in declared(part.name, getattr(stack, part.name))]
    table = {one.name: one for one in found}
    if len(table) < len(found):
        raise TypeError("two traits have one flat name")
    return MappingProxyType(table)


TRAITS = _all()
"""All traits by flat name."""

GETTERS = {name: attrgetter(f"{one.subject}.{one.field}") for name, one in TRAITS.items()}
"""What returns the value of each trait of a stack."""

_RENAMED = MappingProxyType({old: one.name for one in TRAITS.values() for old in one.aliases})


def trait_name(word: str) -> str:
    """Return the name of the trait that a word names, by that or a former one; the word where none has it."""
    return _RENAMED.get(word, word)


def over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of traits, those ``above`` over those ``below``: a kind above has its own numbers."""
    gone = {brought for name in above if name in TRAITS for brought in TRAITS[name].brings}
    return {name: value for name, value in below.items() if name not in gone} | dict(above)
