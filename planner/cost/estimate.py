"""An estimate: one plan priced in full, with every figure that the contract's JSON names."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.cost.case import Case, case_of
from planner.cost.flops import method_flops
from planner.cost.kinds import StepShares, band_of
from planner.cost.layer.communication import message_bytes
from planner.cost.legal import all_rules
from planner.cost.memory.allocator import shown_bytes
from planner.cost.memory.fit import memory_band, oom_probability
from planner.cost.memory.host_rules import hosted_rules
from planner.cost.memory.matrices import padded_weights, shared_matrices
from planner.cost.money import Bill, Phases, bill_of
from planner.cost.settings import settings_left_out
from planner.cost.step.hosted import is_hosted
from planner.cost.step.layout import with_split
from planner.cost.step.parts import PlanParts
from planner.cost.step.played import played_seconds
from planner.cost.step.step import StepPrice, device_bytes, reserve_bytes, unseen_bytes
from planner.cost.traffic.data_parallel import data_parallel_sent
from planner.cost.traffic.whole_matrices import data_sent, tensor_sent
from planner.dataclasses import dataclass, replace
from planner.errors import ImpossiblePrice
from planner.numeric import Column, Num
from planner.plan import Plan
from planner.rules import Violation, violations
from planner.runtimes.family import Job, Runtime
from planner.shown import Shown

FULL: Final = 1.0 + 1e-9
"""All of the dense peak, but for rounding. [-]"""


@dataclass(frozen=True)
class TimeTerms:
    """Seconds of a step by cause, along the stage that takes longest for a micro-batch; they add up. [s]"""

    compute: float
    tp_comm: float
    cp_comm: float
    ep_comm: float
    pp_comm: float
    dp_comm: float
    bubble: float
    optimizer: float
    offload: float
    other: float


@dataclass(frozen=True)
class StageBytes:
    """Memory of one pipeline stage at its peak moment, and live tensors at all its moments. [byte]"""

    stage: int
    moment: str
    weights: float
    gradients: float
    optimizer: float
    activations: float
    workspace: float
    allocated: float
    reserve: float
    framework: float
    total: float
    moments: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class SentBytes:
    """Bytes that one rank sends in an optimizer step, ring-equivalent, on the slowest stage. [byte]"""

    tp: float
    cp: float
    ep: float
    pp: float
    dp: float


@dataclass(frozen=True, repr=False)
class Estimate(Shown):
    """One plan priced in full.

    Times are in seconds, memory in bytes, rates in FLOP/s; what is unknown is None. ``bound`` is what no
    split of the layers beats by the closed form, and ``floor`` what this very plan takes at least, however it
    is played. ``band_basis`` says in words which measured runs the error band is from, ``band_lender`` whose
    it is where that is another runtime's or accelerator's, ``band_shared`` how much wider it is for that.
    ``left_out`` are settings that were asked for and that the plan does not run: name, value and why;
    ``runtime`` is as it runs; ``shown`` is what the device may show in use, free blocks of its allocator
    included.
    """

    job: Job
    runtime: Runtime
    plan: Plan
    feasible: bool
    violations: tuple[Violation, ...]
    step: float
    bound: float
    floor: float
    model_flops: float
    recompute_flops: float
    peak_rate: float
    error_band: float | None
    band_basis: str
    oom_probability: float
    extrapolated_share: float
    time: TimeTerms
    capacity: float
    stages: tuple[StageBytes, ...]
    sent: SentBytes
    bill: Bill
    band_lender: str = ""
    band_shared: float = 1.0
    left_out: tuple[tuple[str, str, str], ...] = ()
    shown: float = 0.0

    @property
    def case(self) -> Case:
        """The job and the techniques of the plan."""
        return case_of(self.plan, self.job, self.runtime)

    @property
    def peak(self) -> float:
        """Device memory in use on the peak stage. [byte]"""
        return max(stage.total for stage in self.stages)

    @property
    def memory_band(self) -> float:
        """Share of `peak` by which 90% of runs use more or less, at most. [-]"""
        return memory_band(self.runtime.traits.allocator.memory_spread)

    @property
    def tokens_per_second(self) -> float:
        """Tokens each second on one accelerator. [1/s]"""
        return self.job.workload.tokens_per_step / self.step / self.job.gpus

    @property
    def model_rate(self) -> float:
        """Model FLOPs each second on one accelerator. [FLOP/s]"""
        return self.model_flops / self.step / self.job.gpus

    @property
    def mfu(self) -> float:
        """Model FLOPs over the dense peak of the workload's precision. [-]"""
        return self.model_rate / self.peak_rate

    @property
    def hfu(self) -> float:
        """The same with what is recomputed. [-]"""
        return (self.model_flops + self.recompute_flops) / self.step / self.job.gpus / self.peak_rate


def parts_of(plan: Plan, job: Job, runtime: Runtime) -> PlanParts:
    """Return a scalar plan taken apart, its layers of each virtual stage written out."""
    case = case_of(plan, job, runtime)
    return PlanParts(with_split(plan, case), case)


def estimate(
    plan: Plan,
    job: Job,
    runtime: Runtime,
    memory_limit: float | None = None,
    parts: PlanParts | None = None,
) -> Estimate:
    """Price one scalar plan in full.

    Parameters
    ----------
    plan : Plan
        Scalar degrees and technique names.
    job : Job
        Model, cluster, number of accelerators and workload.
    runtime : Runtime
        Whose behaviour is priced.
    memory_limit : float, optional
        Device memory that may be used, where it is less than what the device has. [byte]
    parts : PlanParts, optional
        Its parts, where they were worked out already.

    Raises
    ------
    InputError
        If a technique's name is unknown.
    """
    parts = parts or parts_of(plan, job, runtime)
    case = parts.case
    left_out = () if case.runtime is runtime else settings_left_out(plan, job, runtime)
    runtime = case.runtime
    broken = violations(all_rules(plan, case))
    plan = parts.plan
    if parts.hosted is not None:
        broken = (*broken, *violations(hosted_rules(plan, case, max(parts.hosted.host))))
    played = parts.hosted is not None or parts.is_played
    result = _played_step(parts) if played else parts.step
    step = float(result.step)
    extrapolated = parts.microbatches * parts.on_stage("extrapolated") / step
    device = job.hardware.pool.accelerator.memory_usable
    capacity, peak = min(device, memory_limit or float("inf")), float(result.total_bytes)
    flops = method_flops(job, case.method)
    mfu = flops / step / job.gpus / case.peak_rate
    tensor = parts.microbatches * parts.on_stage("tp") / step
    shares = StepShares(extrapolated, float(result.host) / step, peak / device, mfu, tensor)
    band = band_of(plan, job, runtime, shares)
    fits = peak <= capacity
    time = time_terms(parts, result)
    answer = Estimate(
        job=job,
        runtime=runtime,
        plan=plan,
        feasible=fits and not broken,
        violations=broken,
        step=step,
        bound=float(result.bound),
        floor=floor_seconds(parts, result),
        model_flops=flops,
        recompute_flops=_recompute_flops(parts),
        peak_rate=case.peak_rate,
        error_band=None if band is None else band.share,
        band_basis="" if band is None else band.basis,
        band_lender="" if band is None else band.lender,
        band_shared=1.0 if band is None else band.shared,
        left_out=left_out,
        oom_probability=float(oom_probability(peak, capacity, runtime.traits.allocator.memory_spread)),
        extrapolated_share=extrapolated,
        time=time,
        capacity=capacity,
        stages=stage_bytes(case, result, len(parts.ranks)),
        sent=sent_bytes(parts),
        bill=bill_of(job, step, phases_of(time)),
        shown=float(shown_bytes(case, result.memory, device_bytes(case, result.memory))),
    )
    check_rate(answer)
    return answer


def check_rate(answer: Estimate) -> None:
    """Refuse a price whose FLOPs need more than the dense peak.

    Raises `ImpossiblePrice` with the share; the model is wrong there, or a number that the cluster states.
    """
    for name, share in (("MFU", answer.mfu), ("HFU", answer.hfu)):
        if share > FULL:
            device = answer.job.hardware.pool.accelerator.name
            raise ImpossiblePrice(
                f"internal error: this price has an {name} of {share:.3g}, above the dense peak of {device}; "
                "please report it, with the profile of the cluster"
            )


def _played_step(parts: PlanParts) -> StepPrice:
    """Return the price of a step whose passes are played; of copies to the host it is what delays them."""
    if parts.hosted is not None:
        alone, late = parts.hosted.alone, parts.hosted.seconds - parts.hosted.alone
        step = parts.stepped(replace(parts.passes, busy=alone))
        return replace(step, step=step.step + late, offload=step.offload + late)
    busy = played_seconds(parts.case, parts.plan, parts.costs)
    return parts.stepped(replace(parts.passes, busy=busy))


def floor_seconds(parts: PlanParts, result: StepPrice) -> float:
    """Seconds that a step takes at least, however it is played: no stage is done before its own work. [s]"""
    case, passes = parts.case, parts.passes
    if case.schedule.routes > 1:
        return float(result.floor)
    hidden = 0.0 if case.pipeline_code.occupies else passes.hop
    work = parts.plan.num_microbatches * (passes.micro - hidden)
    tail = result.data_parallel + result.optimizer + result.offload
    return float(np.maximum(result.floor, np.max(work + tail)))


def least_seconds(parts: PlanParts) -> float:
    """Seconds of a plan's price, which is not worked out in full; of one that is played, its floor. [s]"""
    if is_hosted(parts.case, parts.plan) or parts.is_played:
        return floor_seconds(parts, parts.step)
    return float(parts.step.step)


def time_terms(parts: PlanParts, result: StepPrice) -> TimeTerms:
    """Split a step's seconds by cause; what the slowest stage does not account for is bubble.

    Messages that occupy nobody may be hidden in a played step: then only what is left of them is told.
    """
    count = parts.microbatches
    terms = {name: count * parts.on_stage(name) for name in ("tp", "cp", "ep")}
    messages = count * parts.slowest_hop
    busy = count * float(np.asarray(parts.passes.micro)[parts.slowest])
    tail = int(np.argmax(result.data_parallel + result.optimizer + result.offload))
    ends = [
        float(np.asarray(column)[tail]) for column in (result.data_parallel, result.optimizer, result.offload)
    ]
    host = float(result.host)
    waits = float(result.step) - host - busy - sum(ends)
    return TimeTerms(
        compute=busy - messages - sum(terms.values()),
        tp_comm=terms["tp"],
        cp_comm=terms["cp"],
        ep_comm=terms["ep"],
        pp_comm=max(0.0, messages + min(0.0, waits)),
        dp_comm=ends[0],
        bubble=max(0.0, waits),
        optimizer=ends[1],
        offload=ends[2],
        other=host,
    )


def phases_of(time: TimeTerms) -> Phases:
    """Return a step's seconds by what the slowest stage does."""
    sent = time.tp_comm + time.cp_comm + time.ep_comm + time.pp_comm + time.dp_comm
    return Phases(
        computing=time.compute + time.optimizer,
        communicating=sent + time.offload,
        waiting=time.bubble + time.other,
    )


MEMORY_COLUMNS = (
    "weights", "gradients", "optimizer", "activations", "workspace", "allocated",
)  # fmt: skip
"""Fields of a stage's memory that an estimate tells."""


def stage_bytes(case: Case, result: StepPrice, ranks: int) -> tuple[StageBytes, ...]:
    """Return the memory of every stage at its peak moment."""
    memory = result.memory

    def on_stages(column: Num) -> Column:
        array = np.asarray(column, float)
        return array if array.shape == (ranks,) else np.broadcast_to(array, (ranks,))

    columns = {name: on_stages(getattr(memory, name)) for name in MEMORY_COLUMNS}
    columns |= {"reserve": on_stages(reserve_bytes(case, memory))}
    columns |= {"framework": on_stages(unseen_bytes(case, memory))}
    columns |= {"total": on_stages(device_bytes(case, memory))}
    at_step = np.broadcast_to(memory.at_step, (ranks,))
    passing = [one for one in memory.moments if one.phase != "optimizer"]
    largest = np.argmax([on_stages(one.size) for one in passing], axis=0)
    moments = {one.name: on_stages(memory.at(one)) for one in memory.moments}
    return tuple(
        StageBytes(
            stage=stage,
            moment="optimizer" if at_step[stage] else passing[largest[stage]].phase,
            moments=tuple((name, float(column[stage])) for name, column in moments.items()),
            **{name: float(column[stage]) for name, column in columns.items()},
        )
        for stage in range(ranks)
    )


def sent_bytes(parts: PlanParts) -> SentBytes:
    """Return the bytes that a rank of the slowest stage sends in a step."""
    case, plan, stage, count = parts.case, parts.plan, parts.slowest, parts.microbatches
    rows = case.rank_tokens(plan)
    message = message_bytes(case, plan, rows)
    held = parts.passes.weights.on(stage)
    matrices = shared_matrices(case, plan, held)
    hops = case.schedule.rank_sends(int(plan.pp), int(plan.vpp))[stage]
    return SentBytes(
        tp=count * parts.on_stage("tp_sent") + float(tensor_sent(case, matrices)),
        cp=count * parts.on_stage("cp_sent"),
        ep=count * parts.on_stage("ep_sent"),
        pp=float(count * message * hops) if plan.pp > 1 else 0.0,
        dp=float(
            data_parallel_sent(case, plan, padded_weights(case, held, matrices)) + data_sent(case, matrices)
        ),
    )


def _recompute_flops(parts: PlanParts) -> float:
    """FLOPs that all ranks repeat in a step. [FLOP]"""
    plan, details = parts.plan, parts.details
    each = sum(float(count) * float(details[piece].recompute_flops) for piece, count in parts.totals.items())
    return float(each * plan.num_microbatches * plan.tp * plan.cp * plan.dp)
