"""Predictions for measured runs: the cost model's, and the rule of thumb that it has to beat."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

import numpy as np

from planner import numeric
from planner.calibrate.eras import unmeasured
from planner.calibrate.runs.conventions import peak_rate
from planner.calibrate.runs.defaults import PricedRun, Skip, in_row
from planner.cost.case import Case, case_of
from planner.cost.flops import method_flops, step_flops
from planner.cost.kinds import StepShares, band_of
from planner.cost.layer.block_cost import PricedLayer, messages_again, outside_seconds
from planner.cost.layer.operators import Pricer
from planner.cost.memory.allocator import shown_bytes
from planner.cost.memory.fit import oom_probability
from planner.cost.memory.stage_memory import first_step_bytes
from planner.cost.stages import Stages, stage_alone, stages_of
from planner.cost.step.layout import choice_for, piece_costs, priced_layers, ranks_of
from planner.cost.step.step import (
    PassPrice,
    StepPrice,
    device_bytes,
    piece_totals,
    price_passes,
    reserve_bytes,
    unseen_bytes,
    whole_step,
)
from planner.dataclasses import dataclass, fields, replace
from planner.errors import PlannerError
from planner.inputs.measured_bands import eras_that_ran
from planner.inputs.model import ModelSpec
from planner.inputs.workload import Workload
from planner.numeric import Num
from planner.plan import DEGREES, Plan
from planner.remembered import remembered
from planner.techniques.recompute.family import RecomputeChoice
from planner.units import GIB

COLUMNS: Final = tuple(name for name in DEGREES if name not in ("pp", "vpp"))
"""Degrees along which a batch of runs is an array; stages have their own axis."""
NAMES: Final = tuple(field.name for field in fields(Plan) if field.name not in DEGREES)
"""Techniques of a plan, equal in a batch."""

FIXED: Final = tuple(name for name in Workload.model_fields if name != "global_batch")
"""Fields of a workload, equal in a batch."""

_names, _fixed = attrgetter(*NAMES), attrgetter(*FIXED)

NAIVE_MFU: Final = 0.55
"""Share of the dense peak that the rule of thumb takes for granted. [-]"""


@dataclass(frozen=True)
class Prediction:
    """What a pricing function says of a run."""

    step_s: float
    """Seconds per step. [s]"""
    allocated_gib: float
    reserve_gib: float
    framework_gib: float
    """Memory of the peak rank: live tensors, allocator reserve, context and communicators. [GiB]"""
    capacity_gib: float
    """Memory that the device has. [GiB]"""
    oom_probability: float
    """Chance that it runs out of memory. [-]"""
    error_band: float | None = None
    """Share by which the time may be wrong; None where never validated. [-]"""
    extrapolated: float = 0.0
    """Share of the time outside the fitted range of kernel curves. [-]"""
    first_step_gib: float = 0.0
    """Live tensors of the peak rank at the peak of a job's first step. [GiB]"""
    host_share: float = 0.0
    """Share of the time in which the device waits for its host. [-]"""
    mfu: float = 1.0
    """Share of its peak that the device reaches, in model FLOPs. [-]"""
    free_gib: float = 0.0
    """Memory that the peak rank's allocator keeps beyond its slack, as a counter sees it. [GiB]"""
    first_rank_gib: float = 0.0
    """Live tensors and allocator reserve of the first pipeline rank at its peak. [GiB]"""
    last_rank_gib: float = 0.0
    """Live tensors of the last pipeline rank at its peak. [GiB]"""
    tensor_share: float = 0.0
    """Share of the time in which the device waits for messages of tensor parallelism. [-]"""

    @property
    def total_gib(self) -> float:
        """What the device must have. [GiB]"""
        return self.allocated_gib + self.reserve_gib + self.framework_gib

    @property
    def oom(self) -> bool:
        """Whether it is predicted to run out of memory."""
        return self.total_gib > self.capacity_gib

    def by_counter(self, kind: str) -> float:
        """Return the memory that a counter shows; the device in use where none is named. [GiB]"""
        shown = {
            "allocated": self.allocated_gib,
            "first-step": self.first_step_gib,
            "first-rank": self.first_rank_gib,
            "last-rank": self.last_rank_gib,
            "reserved": self.allocated_gib + self.reserve_gib + self.free_gib,
        }
        return shown.get(kind, self.total_gib + self.free_gib)


Price = Callable[[Sequence[PricedRun]], list[Prediction | Skip]]
"""Prices runs; what it cannot price it skips with a reason, in the same place."""


def cost_predictions(runs: Sequence[PricedRun]) -> list[Prediction | Skip]:
    """Return the cost model's prediction of each run; runs that differ in degrees alone are one batch."""
    batches: dict[Hashable, list[int]] = {}
    for place, priced in enumerate(runs):
        batches.setdefault(batch_key(priced), []).append(place)
    found: dict[int, Prediction | Skip] = {}
    for places in batches.values():
        members = [runs[place] for place in places]
        try:
            found |= dict(zip(places, batch_predictions(members), strict=True))
        except PlannerError as error:
            found |= {place: skipped(runs[place], error) for place in places}
    return [found[place] for place in range(len(runs))]


def skipped(priced: PricedRun, error: PlannerError) -> Skip:
    """Return why a run has no price."""
    return Skip(priced.run.id, in_row(priced.run, str(error)))


def batch_key(priced: PricedRun) -> Hashable:
    """Return what runs of one batch have in common: all but the degrees along which the price is an array."""
    plan, job = priced.plan, priced.job
    same = id(job.model), id(job.hardware), job.gpus, id(priced.runtime), plan.pp, plan.vpp
    return *same, _names(plan), _fixed(job.workload)


def batch_predictions(runs: Sequence[PricedRun]) -> list[Prediction]:
    """Return the prediction of each run of one batch.

    Raises
    ------
    InputError
        If the cost model does not know one of its techniques.
    """
    first = runs[0]
    alone = len(runs) == 1
    plan = first.plan if alone else _columns(runs)
    case = case_of(plan, first.job, first.runtime)
    ranks = ranks_of(first.plan, case)
    totals = piece_totals(ranks)
    layers = priced_layers(case, plan, totals)
    costs = piece_costs(case, plan, layers, totals)
    if alone:
        stages = stage_alone(ranks[0]) if len(ranks) == 1 else stages_of(ranks)
    else:
        stages = stages_of(ranks).repeated()
    passes = price_passes(case, plan, costs, stages, totals, bounded=False)
    result = whole_step(case, plan, passes, stages)

    capacity = first.job.hardware.pool.accelerator.memory_usable
    table = _figures(runs, _Passes(Pricer(case, plan), layers, stages, passes), result)
    return [
        Prediction(
            step_s=step,
            allocated_gib=live / GIB,
            reserve_gib=(whole - live - beside) / GIB,
            framework_gib=beside / GIB,
            capacity_gib=capacity / GIB,
            oom_probability=share,
            error_band=_band_of(first, StepShares(outside, wait, whole / capacity, mfu, messages)),
            host_share=wait,
            mfu=mfu,
            extrapolated=outside,
            first_step_gib=early / GIB,
            free_gib=(used - whole) / GIB,
            first_rank_gib=own / GIB,
            last_rank_gib=end / GIB,
            tensor_share=messages,
        )
        for step, live, early, whole, share, outside, used, own, end, wait, mfu, beside, messages in table
    ]


def _at_peak(runs: Sequence[PricedRun], case: Case) -> Num:
    """Seconds that the model FLOPs of each run's step take at its accelerators' peak. [s]"""
    seconds = [method_flops(run.job, case.method) / run.job.gpus / case.peak_rate for run in runs]
    return seconds[0] if len(seconds) == 1 else np.array(seconds)


def _columns(runs: Sequence[PricedRun]) -> Plan:
    """Return the plans of runs as one whose degrees are columns."""
    columns = {name: np.array([float(getattr(run.plan, name)) for run in runs]) for name in COLUMNS}
    return replace(runs[0].plan, **columns)  # type: ignore[arg-type]


def _figures(runs: Sequence[PricedRun], within: _Passes, result: StepPrice) -> Iterator[tuple[float, ...]]:
    """Yield the figures of each run of a batch, as `batch_predictions` names them."""
    case, alone, first = within.pricer.case, len(runs) == 1, runs[0]
    capacity = first.job.hardware.pool.accelerator.memory_usable
    allocated = numeric.max(result.memory.allocated)
    opening = numeric.max(first_step_bytes(case, result.memory))
    total = result.total_bytes
    shown = shown_bytes(case, result.memory, device_bytes(case, result.memory))
    chance = oom_probability(total, capacity, first.runtime.traits.allocator.memory_spread)
    far, tensor = (within.seconds_of(kind) / result.step for kind in (outside_seconds, _tensor_seconds))
    own = _of_rank(result.memory.allocated + reserve_bytes(case, result.memory), 0, alone)
    last = _of_rank(result.memory.allocated, -1, alone)
    waits, busy = result.host / result.step, _at_peak(runs, case) / result.step
    unseen = numeric.max(unseen_bytes(case, result.memory))
    figures = (
        *(result.step, allocated, opening, total, chance, far),
        *(shown, own, last, waits, busy, unseen, tensor),
    )
    return zip(*(_row_by_row(column, len(runs)) for column in figures), strict=True)


def _of_rank(column: Num, place: int, alone: bool) -> Num:
    """Return a figure of one pipeline rank, the first axis; a number is that of the only one."""
    if not isinstance(column, np.ndarray):
        return column
    found: Num = (column if alone else np.atleast_2d(column))[place]
    return found


def _row_by_row(column: Num, rows: int) -> list[float]:
    """Return a figure of each run of a batch."""
    if rows == 1:
        return [float(column.item() if isinstance(column, np.ndarray) else column)]
    spread: list[float] = np.broadcast_to(column, (rows,)).tolist()
    return [float(one) for one in spread]


@dataclass(frozen=True)
class _Passes:
    """The passes of a step, of one plan or of a batch."""

    pricer: Pricer
    layers: Mapping[str, PricedLayer]
    stages: Stages
    passes: PassPrice

    def seconds_of(self, kind: Callable[[PricedLayer, RecomputeChoice, Pricer], Num]) -> Num:
        """Seconds of each step that are of a kind, along its slowest stage. [s]"""
        seconds: Num = 0.0
        case, plan = self.pricer.case, self.pricer.plan
        for piece, count in self.stages.counts.items():
            seconds = seconds + count * kind(self.layers[piece[0]], choice_for(piece, case), self.pricer)
        micro = self.passes.micro
        if not isinstance(seconds, np.ndarray) and not isinstance(micro, np.ndarray):
            return plan.num_microbatches * seconds
        if np.ndim(seconds) == np.ndim(micro) == 1:  # stages of one plan
            return plan.num_microbatches * float(np.asarray(seconds)[np.argmax(micro)])
        columns, micro = np.broadcast_arrays(seconds, micro)
        slowest = np.argmax(micro, axis=0, keepdims=True)
        result: Num = plan.num_microbatches * np.take_along_axis(columns, slowest, axis=0)[0]
        return result


def _tensor_seconds(layer: PricedLayer, choice: RecomputeChoice, pricer: Pricer) -> Num:
    """Seconds in which all passes of a layer wait for messages of tensor parallelism. [s]"""
    messages = layer.exchanges.tp
    repeated = messages_again(layer, choice, pricer)
    return (1.0 + repeated) * messages.forward + messages.backward


def _band_of(run: PricedRun, shares: StepShares) -> float | None:
    pool = run.job.hardware.pool
    if run.era in unmeasured() and not run.release and pool.calibration is None:
        here = run.runtime.name, pool.accelerator.name, run.era
        if here not in eras_that_ran():
            return None
    band = band_of(run.plan, run.job, run.runtime, shares)
    return None if band is None else band.share


@remembered(most=256)
def _token_flops(model: ModelSpec, seq_len: int, document_tokens: int | None, frozen: bool) -> float:
    return step_flops(model, seq_len, 1.0, document_tokens, frozen)


def naive_seconds(runs: Sequence[PricedRun]) -> list[float]:
    r"""Seconds per step by the rule of thumb: 55% MFU, a third more for full recompute, and the bubble. [s]

    .. math:: t = \frac{F}{0.55\,P\,n}\,r\left(1 + \frac{p - 1}{m v}\right)
    """
    seconds = []
    for priced in runs:
        plan, job = priced.plan, priced.job
        work = job.workload
        token = _token_flops(job.model, work.seq_len, work.document_tokens, work.method != "full")
        rate = NAIVE_MFU * peak_rate(job.hardware.pool.accelerator, job.workload.precision) * job.gpus
        again = 4 / 3 if plan.recompute.startswith("full") else 1.0
        bubble = (float(plan.pp) - 1) / (float(plan.num_microbatches) * float(plan.vpp))
        seconds.append(token * job.workload.tokens_per_step / rate * again * (1 + bubble))
    return seconds
