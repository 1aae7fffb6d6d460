"""A setting of a training framework: a choice beside degrees and techniques, such as graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from planner.dataclasses import dataclass
from planner.inputs.model import DenseFfn, ModelSpec
from planner.inputs.workload import Workload
from planner.remembered import remembered

Value = float | bool | str


class Valued(Protocol):
    """What has a value for each trait: a runtime's stack of them."""

    def value_of(self, name: str) -> Value: ...


def always(model: ModelSpec, workload: Workload) -> bool:
    """Whether a setting changes anything: of any job."""
    return True


@dataclass(frozen=True)
class Setting:
    """One setting, whatever framework has it."""

    name: str
    """As in ``--set NAME=VALUE`` and in JSON."""
    about: str
    """What it decides."""
    cite: str
    """Where it is described."""
    values: Mapping[str, Mapping[str, Value]]
    """Each value's traits, by name; the first value is the plain one, the last the one that a search tries
    first."""
    matters: Callable[[ModelSpec, Workload], bool] = always
    """Whether it changes anything of a job: from model and workload."""
    scanned: tuple[str, ...] = ()
    """Values that forbid plans others than the plain one does: a search prices all plans with each of them,
    and those with the plain value too. Without any, all plans are priced with the last value alone."""
    everywhere: bool = False
    """Whether ``scanned`` holds for models without experts too; else it is tried on their best plans."""
    numerics: bool = False
    """Whether its values train with other numbers, so that a search takes them only where it is allowed."""
    evidence: Mapping[str, str] | None = None
    """For each value but the plain one, the measured runs that have it; a value without any is unproven."""
    aliases: tuple[str, ...] = ()
    """Other names."""

    @property
    def plain(self) -> str:
        """The value without which it is as if there were no setting."""
        return next(iter(self.values))

    @property
    def value_names(self) -> str:
        """Its values in words."""
        return ", ".join(self.values)

    def value_of(self, traits: Valued) -> str | None:
        """Return the value that a runtime's traits have; None where they have that of none."""
        return _value_of(self, traits)


@remembered(most=16384, records=2)
def _value_of(setting: Setting, traits: Valued) -> str | None:
    """Return the first value of a setting all of whose traits are there."""
    for value, changes in setting.values.items():
        if all(traits.value_of(name) == wanted for name, wanted in changes.items()):
            return value
    return None


def with_experts(model: ModelSpec, workload: Workload) -> bool:
    """Whether a model has layers of experts."""
    return bool(model.expert_kinds)


def in_low_bits(model: ModelSpec, workload: Workload) -> bool:
    """Whether products run in formats of eight bits or fewer that keep copies of the weights."""
    return workload.precision not in ("bf16", "fp16", "fp32", "fp8-block")


def unequal_lengths(model: ModelSpec, workload: Workload) -> bool:
    """Whether lengths are unequal, and no experts join ranks that run different numbers of passes."""
    return workload.seq_lens is not None and not model.expert_kinds


TILE_COUNTS = (1, 2, 4, 8, 16, 64, 128, 256, 512, 1024, 32)
"""Tiles of a rank's tokens, the usual number last: of a million tokens over eight ranks, as many in each as
the model is wide (arXiv:2506.13996). [-]
"""

LONG = 65536
"""Tokens of a sequence from which tiles are tried: below, one layer's inside is a few GiB at most. [-]"""


def long_sequences(model: ModelSpec, workload: Workload) -> bool:
    """Whether sequences are so long that what one layer or the loss needs besides may decide what fits."""
    return workload.seq_len >= LONG


def long_and_dense(model: ModelSpec, workload: Workload) -> bool:
    """Whether sequences are long and some layer has a dense feed-forward."""
    return long_sequences(model, workload) and any(
        isinstance(block.ffn, DenseFfn) for block in model.blocks.values()
    )
