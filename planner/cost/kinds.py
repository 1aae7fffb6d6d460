"""Kinds of plan for whose price measured runs stand, or none: what a claim rests on.

A kind is told of a runtime's core, a chip, and models with or without experts. Of a kind without a run the
price is that of formulas alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cost.settings import Where, behind, unseen_settings
from planner.dataclasses import dataclass, replace
from planner.inputs.bands import Asked, Band, chip_of, core_of, error_band
from planner.inputs.fitted import fitted_file
from planner.inputs.measured_bands import EXPERTS, regime_of
from planner.inputs.yaml_file import read_fitted
from planner.numeric import Truth
from planner.plan import Plan
from planner.remembered import remembered
from planner.runtimes.family import Job, Runtime
from planner.techniques.offload import OFFLOADS
from planner.techniques.offload.family import Offload, read_offload

FEW_TOKENS: Final = 4096
"""Tokens of a rank up to which splitting a sequence is unusual. [token]"""

Kind = Callable[[Plan, Job], Truth]
"""Whether a plan is of a kind, or each of a batch."""


def _domain(job: Job) -> int:
    return job.hardware.pool.scaleup_domain


def _routed(job: Job) -> bool:
    return bool(job.model.expert_kinds)


def _offload(plan: Plan) -> Offload:
    return read_offload(OFFLOADS, plan.offload)


RECOMPUTED: Final = "layers of experts recomputed"
"""The kind that another choice of what is recomputed takes away."""

KINDS: Final[Mapping[str, Kind]] = {
    "a diffusion transformer": lambda plan, job: job.model.diffusion is not None,
    "an encoder of images": lambda plan, job: job.model.encoder is not None and not job.model.crosses,
    "an encoder beside a decoder": lambda plan, job: job.model.crosses,
    "activations on the host": lambda plan, job: plan.offload.startswith(("activations", "modules")),
    "optimizer states on the host": lambda plan, job: _offload(plan).optimizer,
    "weights on the host": lambda plan, job: _offload(plan).fetches,
    "tensor parallelism beyond the fast links": lambda plan, job: plan.tp > _domain(job),
    "sequences split below 4,096 tokens": lambda plan, job: (
        (plan.cp > 1) & (job.workload.seq_len / plan.cp <= FEW_TOKENS)
    ),
    "parameters sharded beyond the fast links": lambda plan, job: (
        (plan.zero == 3) & (plan.zero_shards * plan.tp > _domain(job))
    ),
    "experts on every rank": lambda plan, job: (_routed(job) and job.gpus > 1) & (plan.ep == 1),
    "experts spread beyond the fast links": lambda plan, job: (
        _routed(job) & (plan.ep * plan.etp > _domain(job))
    ),
    "experts sharded as parameters": lambda plan, job: _routed(job) and plan.zero == 3,
    RECOMPUTED: lambda plan, job: _routed(job) and plan.recompute.startswith("full"),
    "several sequences in a pass of experts": lambda plan, job: (
        _routed(job) & (plan.micro_batch > 1) & (plan.micro_batch > plan.tp)
    ),
}
"""Whether a plan is of a kind, by the kind's name."""


def kinds_of(plan: Plan, job: Job) -> tuple[str, ...]:
    """Return the kinds of which a scalar plan is, by name."""
    return tuple(name for name, holds in KINDS.items() if bool(holds(plan, job)))


@dataclass(frozen=True)
class KindRuns:
    """Measured runs of one kind: how many, and what 90% of their prices are off by at most. [-]"""

    runs: int
    error: float


@cache
def measured_kinds() -> Mapping[tuple[Where, str], KindRuns]:
    """Return the measured runs of each kind that has any."""
    path = fitted_file("kinds")
    return {
        ((entry["core"], entry["chip"], bool(entry["experts"])), entry["kind"]): KindRuns(
            int(entry["runs"]), float(entry["error"])
        )
        for entry in (read_fitted(path)["kinds"] if path.is_file() else ())
    }


def unmeasured_kinds(plan: Plan, job: Job, runtime: Runtime) -> tuple[str, ...]:
    """Return the kinds of a plan that no measured run behind it is of."""
    measured = _measured(job, runtime)
    return tuple(name for name in kinds_of(plan, job) if name not in measured)


def kinds_without_runs(plan: Plan, job: Job) -> tuple[str, ...]:
    """Return the kinds of a plan that no measured run is of, whatever its runtime and machine."""
    known = {kind for _, kind in measured_kinds()}
    return tuple(name for name in kinds_of(plan, job) if name not in known)


@remembered(most=1024, records=2)
def _measured(job: Job, runtime: Runtime) -> dict[str, KindRuns]:
    """Return the kinds of the runs behind a job's plans: the nearest of each."""
    known, there = measured_kinds(), behind(job, runtime)
    return {name: known[here, name] for here in reversed(there) for name in KINDS if (here, name) in known}


def backed_rows(plan: Plan, job: Job, runtime: Runtime, but: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Return which plans of a batch are of measured kinds alone, some kinds not counted."""
    measured = _measured(job, runtime)
    found = np.zeros(plan.shape, dtype=bool)
    for name, holds in KINDS.items():
        if name not in measured and name not in but:
            found |= np.asarray(holds(plan, job))
    return ~found


def most_doubt(job: Job, runtime: Runtime) -> float:
    """Return about the widest band of a plan of kinds without a run; 0 where plans have no band. [-]"""
    band = error_band(runtime.name, job.hardware.pool, 0.0, regime=EXPERTS if _routed(job) else "")
    return 0.0 if band is None else band.share / band.shared * ELSEWHERE_WIDER


ELSEWHERE_WIDER: Final = 2.2
"""How much wider a band is taken of a plan of kinds that no run has: an assumption. [-]

Bands of one runtime on two accelerators differ by no more in 90% of the 66 pairs that `measured_bands` has,
with experts or without, those left out whose runs are off by more than half in the mean
(`tests/unit/test_lent_bands.py`).
"""

UNUSUAL: Final[Mapping[str, bool]] = {
    "tensor parallelism beyond the fast links": True,
    "sequences split below 4,096 tokens": False,
    "experts spread beyond the fast links": True,
}
"""Kinds that good engineers avoid, each with whether it is one of links."""


def unusual_kinds(plan: Plan, job: Job, runtime: Runtime) -> tuple[str, ...]:
    """Return the kinds of a plan that good engineers avoid, and that no run of its core is of.

    A run on any chip will do, and of any model; but of links only one on this chip, where its fast links
    join nodes: what leaves a rack is not what leaves a node.
    """
    pool = job.hardware.pool
    joined, chip = pool.scaleup_domain > pool.gpus_per_node, chip_of(pool.accelerator.name)
    own = {(kind, on) for (core, on, _), kind in measured_kinds() if core == core_of(runtime.name)}
    seen = {kind for kind, on in own if on == chip or not (joined and UNUSUAL.get(kind, True))}
    return tuple(name for name in kinds_of(plan, job) if name in UNUSUAL and name not in seen)


@dataclass(frozen=True)
class StepShares:
    """Of what a step's band depends on beside plan and job: shares of its time, and of the memory. [-]"""

    extrapolated: float
    """Of the time, outside the fitted range of kernel curves."""
    host: float
    """Of the time, waiting for the host."""
    used: float
    """Of the device's memory, in use."""
    mfu: float = 1.0
    """Of its peak, that it reaches in model FLOPs."""
    tensor: float = 0.0
    """Of the time, waiting for messages of tensor parallelism."""


def band_of(plan: Plan, job: Job, runtime: Runtime, shares: StepShares) -> Band | None:
    """Return the error band of a plan's step, by release, settings, accelerator and kind of plan."""
    pool = job.hardware.pool
    regime = regime_of(pool, job.gpus, shares.host, shares.mfu, _routed(job))
    asked = Asked(runtime.era, unseen_settings(plan, job, runtime), shares.tensor)
    band = error_band(runtime.name, pool, shares.extrapolated, shares.used, regime, asked)
    return band_of_kinds(band, plan, job, runtime)


def band_of_kinds(band: Band | None, plan: Plan, job: Job, runtime: Runtime) -> Band | None:
    """Return the band of a plan by its kinds: of each, no narrower than what its measured runs were off by.

    Of a kind without any, the band is as much wider as another accelerator's would be.
    """
    if band is None or not (own := kinds_of(plan, job)):
        return band
    measured = _measured(job, runtime)
    for runs, name in ((measured.get(name), name) for name in own):
        if runs is not None and runs.error > band.share:
            basis = f"{band.basis}; wider since runs there with {name} ({runs.runs}) were further off"
            band = replace(band, share=runs.error, basis=basis)
    return beyond_runs(band, unmeasured_kinds(plan, job, runtime))


def beyond_runs(band: Band | None, kinds: Sequence[str]) -> Band | None:
    """Return the band of a plan of ``kinds`` that no measured run is of: as wide as another accelerator's."""
    if band is None or not kinds:
        return band
    basis = f"{band.basis}; {ELSEWHERE_WIDER:g} times as wide since no run there has {' or '.join(kinds)}"
    return replace(band, share=band.share * ELSEWHERE_WIDER, basis=basis)


def unseen_doubt(share: float) -> float:
    """Return how much of the band of a plan of kinds without a run is there since no run has them. [-]"""
    return share * (1.0 - 1.0 / ELSEWHERE_WIDER)
