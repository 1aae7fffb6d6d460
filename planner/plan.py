"""A plan: the degrees and the names of the techniques. The same record holds one plan or millions.

In a scalar plan every degree is a number. In a batch the degrees are float64 arrays that broadcast against
one another, one axis for each decision, and the names are common to all of its plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import numpy as np

from planner.arguments import made_with_care, refuse
from planner.dataclasses import dataclass, fields
from planner.fields import AXES
from planner.numeric import Num

DEGREES: Final = tuple(axis.name for axis in AXES if axis.kind == "count" and axis.name != "zero")
"""Fields that are numbers, and columns in a batch."""

MESH: Final = ("tp", "pp", "vpp", "cp", "ep", "etp")
"""Degrees from which dp follows, and what makes a plan hard to debug."""

NAMES: Final = tuple(axis.name for axis in AXES if axis.table)
"""Fields that name a technique."""

_USUAL_NUMBERS: Final = frozenset({int, float, np.float64, np.ndarray})
"""Types of nearly every degree; others are looked at one by one."""

_TEXT: Final = frozenset({str})

_degrees: Final = attrgetter(*DEGREES)
_names: Final = attrgetter(*NAMES)


@made_with_care
@dataclass(frozen=True)
class Plan:
    """One way to lay a job out on a cluster, or a batch of ways with the same techniques.

    Parameters
    ----------
    tp, pp, vpp, cp, ep, etp, dp : Num
        Tensor, pipeline, virtual pipeline, context, expert, expert tensor and data parallel degrees;
        tp · pp · cp · dp is the number of accelerators, and dp does not contain cp. [-]
    zero_shards : Num
        Ranks over which the sharded states are spread: dp · cp unless hybrid. [-]
    micro_batch : Num
        Sequences for each data-parallel rank and pass. [-]
    num_microbatches : Num
        Passes of a step: global_batch / (micro_batch · dp). [-]
    zero : int
        What is sharded over data parallel: 0 nothing, 1 optimizer, 2 and gradients, 3 and parameters.
    recompute, cp_method, schedule, offload : str
        Names in the tables of ``planner.techniques``.
    sequence_parallel : bool
        Whether what tensor parallelism replicates is split along the sequence.
    stage_layers : tuple of int, optional
        Layers of each virtual stage in the order of the model; None is the even split (`even_split`).
    prediction_apart : bool
        Whether extra prediction layers stand beside the last decoder layers, before a loss alone
        (`prediction_stage`).
    """

    tp: Num = 1.0
    pp: Num = 1.0
    vpp: Num = 1.0
    cp: Num = 1.0
    ep: Num = 1.0
    etp: Num = 1.0
    dp: Num = 1.0
    zero_shards: Num = 1.0
    micro_batch: Num = 1.0
    num_microbatches: Num = 1.0
    zero: int = 0
    recompute: str = "none"
    sequence_parallel: bool = False
    cp_method: str = "ring"
    schedule: str = "1f1b"
    offload: str = "none"
    stage_layers: tuple[int, ...] | None = None
    prediction_apart: bool = False

    def __post_init__(self) -> None:
        """Refuse words for numbers and numbers for words.

        Raises `InputError` with every field of another type.
        """
        if _USUAL_NUMBERS.issuperset(map(type, _degrees(self))) and _TEXT.issuperset(map(type, _names(self))):
            return
        if any(isinstance(getattr(self, name), str | bool | None) for name in DEGREES) or not all(
            isinstance(getattr(self, name), str) for name in NAMES
        ):
            kinds = dict.fromkeys(DEGREES, Num) | dict.fromkeys(NAMES, str)
            refuse({name: getattr(self, name) for name in kinds}, kinds, "Plan: ")

    @property
    def gpus(self) -> Num:
        """Accelerators in use. [-]"""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def pipeline(self) -> tuple[int, int, int]:
        """Ranks, chunks of each and micro-batches of a scalar plan's pipeline. [-]"""
        return int(self.pp), int(self.vpp), int(self.num_microbatches)

    @property
    def expert_dp(self) -> Num:
        """Ranks that hold the same experts. [-]"""
        return self.tp * self.cp * self.dp / (self.ep * self.etp)

    @property
    def expert_shards(self) -> Num:
        """Ranks that share the states of an expert: fewer than hold it, where shards have replicas. [-]"""
        return self.expert_dp * (self.zero_shards / (self.dp * self.cp))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the batch; empty for a scalar plan."""
        own = vars(self)
        shapes = {np.shape(own[name]) for name in DEGREES} - {()}
        return shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)

    def row(self, index: tuple[int, ...], **changes: object) -> Plan:
        """Return the scalar plan at ``index`` of the batch, with fields replaced by ``changes``."""
        degrees = {name: _entry(getattr(self, name), index) for name in DEGREES}
        return Plan(**(vars(self) | degrees | changes))

    def as_dict(self) -> dict[str, object]:
        """Return the scalar plan with whole degrees as integers, as the contract's JSON has it.

        Where prediction layers stand is said only of plans that say it themselves.
        """
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        whole = {name: int(record[name]) for name in DEGREES}
        layers = list(self.stage_layers) if self.stage_layers is not None else None
        if not self.prediction_apart:
            del record["prediction_apart"]
        return record | whole | {"stage_layers": layers}

    @property
    def split_text(self) -> str:
        """Layers of each virtual stage that a plan names, such as ``3-2-2``; ``1m`` with prediction layers.

        >>> Plan(stage_layers=(3, 2, 1, 0), prediction_apart=True).split_text
        '3-2-1m-0'
        """
        words = [str(layers) for layers in self.stage_layers or ()]
        if self.prediction_apart and len(words) > 1:
            words[-2] += "m"
        return "-".join(words)

    @property
    def slug(self) -> str:
        """Short name of a scalar plan, for files and tables, such as ``tp8-pp4-dp2-mb1-zero1``."""
        axes = (("tp", self.tp), ("pp", self.pp), ("vpp", self.vpp), ("cp", self.cp), ("ep", self.ep))
        wide = [f"{name}{degree:.0f}" for name, degree in axes if degree > 1]
        tail = [f"dp{self.dp:.0f}", f"mb{self.micro_batch:.0f}", f"zero{self.zero}"]
        extra = [name for name in (self.recompute, self.offload) if name != "none"]
        return "-".join(wide + tail + extra).replace(":", "").replace("+", "-")


def plans_of(degrees: Sequence[Sequence[float]], names: Sequence[dict[str, Any]]) -> list[Plan]:
    """Return scalar plans of the numbers of each degree, and of each plan's other fields.

    All are of batches that were checked.
    """
    return [
        _unchecked(dict(zip(DEGREES, row, strict=True)) | own)
        for row, own in zip(zip(*degrees, strict=True), names, strict=True)
    ]


def _unchecked(values: dict[str, Any]) -> Plan:
    """Return the plan of values that a checked batch had."""
    plan = object.__new__(Plan)
    plan.__dict__.update(values)
    return plan


def _entry(column: Num, index: tuple[int, ...]) -> float:
    """Return the number at ``index`` of what a column broadcasts to."""
    if not isinstance(column, np.ndarray) or column.ndim == 0:
        return float(column)
    if column.ndim == 1:
        return float(column[index[-1] if column.size > 1 else 0])
    entries = column
    last = index[-entries.ndim :]
    return float(entries[tuple(0 if n == 1 else i for i, n in zip(last, entries.shape, strict=True))])


@lru_cache(maxsize=4096)
def even_split(layers: int, parts: int) -> tuple[int, ...]:
    """Layers of each part, as equal as can be; a remainder goes to the middle, away from both ends.

    The first stage holds the most activations and the embedding, the last one the head. Of more parts than
    layers the ends hold none, the last one first: the loss takes more time than the embedding.

    Examples
    --------
    Llama 3 405B on 16 stages, as its authors ran it (arXiv:2407.21783, sec. 3.3.2):

    >>> even_split(126, 16)
    (7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7)

    Three layers between embedding and loss:

    >>> even_split(3, 5), even_split(3, 4)
    ((0, 1, 1, 1, 0), (1, 1, 1, 0))
    """
    base, rest = divmod(layers, parts)
    by_distance = sorted(range(parts), key=lambda part: (-min(part, parts - 1 - part), part))
    longer = set(by_distance[:rest])
    return tuple(base + (part in longer) for part in range(parts))


def prediction_stage(split: Sequence[int], predicts: bool, apart: bool = False) -> int:
    """Virtual stage that holds the extra prediction layers of a model cut into stages of so many layers.

    It is the last one, with the loss, unless neither it nor the one before has layers of the model: then the
    loss stands alone and the prediction layers in the stage before it, as Megatron-LM's layouts ``m|L`` say.
    They stand beside decoder layers before a loss alone, ``tm|L``, where a plan says that they are ``apart``.

    Examples
    --------
    ``Et*3|tt|m|L``, ``Et*3|tt|mL`` and ``Et*3|ttm|L``:

    >>> [prediction_stage(split, True) for split in ((3, 2, 0, 0), (3, 2, 0))]
    [2, 2]
    >>> prediction_stage((3, 2, 0), True, apart=True)
    1
    """
    alone = predicts and len(split) > 2 and not split[-1] and (apart or not split[-2])
    return len(split) - (2 if alone else 1)
