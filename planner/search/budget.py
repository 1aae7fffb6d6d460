"""How large a model for a budget: each size with its own best plan, and the tokens that this can train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.inputs.model import ModelSpec
from planner.search.optimise import found_plans
from planner.search.request import Progress, SearchRequest
from planner.techniques.precision import PRECISIONS
from planner.techniques.scaling_laws import ScalingLaw
from planner.units import DAY, HOUR

SMALLEST: Final = 0.15
"""Size, over that which the peak would train, from which sizes are searched: at a fiftieth of the peak the
best of Chinchilla's law is a seventh as large. [-]"""

LARGEST: Final = 2.0
"""Size, over that which the peak would train, up to which sizes are searched. [-]"""


@dataclass(frozen=True)
class Budget:
    """What may be spent, one of them at least."""

    flops: float | None = None
    """Model FLOPs of the training. [FLOP]"""
    usd: float | None = None
    """Money for accelerators. [USD]"""
    days: float | None = None
    """Time. [-]"""


@dataclass(frozen=True)
class Sized:
    """One size in a budget, with its best plan."""

    answer: Estimate
    """Its fastest plan."""
    budget: Budget
    """What may be spent."""
    law: ScalingLaw
    """How good a model becomes."""

    @property
    def params(self) -> float:
        """Parameters; of experts, those that a token uses. [-]"""
        return float(self.answer.job.model.active_params)

    @cached_property
    def limits(self) -> dict[str, float]:
        """Tokens that each part of the budget suffices for. [-]"""
        answer, tokens = self.answer, self.answer.job.workload.tokens_per_step
        found = {}
        if self.budget.flops is not None:
            found["flops"] = self.budget.flops / answer.model_flops * tokens
        if self.budget.usd is not None and answer.bill.usd_per_step:
            found["dollars"] = self.budget.usd / answer.bill.usd_per_step * tokens
        if self.budget.days is not None:
            found["days"] = self.budget.days * DAY / answer.step * tokens
        return found

    @property
    def binding(self) -> str:
        """What ends the training."""
        return min(self.limits, key=self.limits.__getitem__)

    @property
    def tokens(self) -> float:
        """Tokens that the budget trains. [-]"""
        return min(self.limits.values())

    @property
    def steps(self) -> float:
        """Optimizer steps. [-]"""
        return self.tokens / self.answer.job.workload.tokens_per_step

    @property
    def days(self) -> float:
        """Days of training. [-]"""
        return self.steps * self.answer.step / DAY

    @property
    def usd(self) -> float | None:
        """What it costs; None where no price is known. [USD]"""
        usd = self.answer.bill.usd_per_step
        return None if usd is None else self.steps * usd

    @property
    def flops(self) -> float:
        """Model FLOPs of the training. [FLOP]"""
        return self.steps * self.answer.model_flops

    @property
    def loss(self) -> float | None:
        """Loss after training by the law, None where it says none. [nat]"""
        return self.law.loss(self.params, self.tokens)

    @property
    def rank(self) -> float:
        """By what sizes are ranked; less is better."""
        return self.law.rank(self.params, self.tokens)


@dataclass(frozen=True)
class Sizing:
    """Sizes in a budget, small to large, those that do not fit on the cluster, and the rule of thumb."""

    sizes: tuple[Sized, ...]
    """Those with a plan."""
    too_large: tuple[str, ...]
    """Names of those without one."""
    peak_flops: float
    """FLOPs that the budget would buy at the accelerators' peak. [FLOP]"""
    law: ScalingLaw
    budget: Budget
    """What the sizes are judged by."""

    @property
    def best(self) -> Sized | None:
        """The size with the least loss."""
        return min(self.sizes, key=lambda one: one.rank, default=None)

    @property
    def at_peak(self) -> float:
        """Parameters that the law would choose if all FLOPs of the peak were used. [-]"""
        return self.law.best_size(self.peak_flops)

    @property
    def is_at_edge(self) -> bool:
        """Whether no larger, or no smaller, size was searched than the best."""
        return self.best is not None and len(self.sizes) > 1 and self.best in (self.sizes[0], self.sizes[-1])


def peak_budget(request: SearchRequest, budget: Budget) -> float:
    """Return the FLOPs that a budget buys at the peak of all accelerators. [FLOP]"""
    pool, gpus = request.clusters[0].pool, max(request.gpu_counts)
    peak = float(pool.accelerator.peak[PRECISIONS[request.workload.precision].peak])
    price = pool.price_per_hour
    found = [budget.flops] if budget.flops is not None else []
    if budget.days is not None:
        found.append(gpus * peak * budget.days * DAY)
    if budget.usd is not None and price:
        found.append(budget.usd / float(price) * HOUR * peak)
    return min(found)


def sized(
    request: SearchRequest,
    models: Sequence[ModelSpec],
    budget: Budget,
    law: ScalingLaw,
    progress: Progress | None = None,
) -> Sizing:
    """Return what a budget trains of each model, each with the plan that is fastest for it.

    Models are searched from the smallest; those larger than one that does not fit are not tried.

    ``request``: cluster, accelerators, workload and runtimes; its model is none of the answer; ``law``: how
    good a model becomes; ``progress``: told the share done and the model at hand.
    """
    found: list[Sized] = []
    ordered = sorted(models, key=lambda model: model.params)
    for place, model in enumerate(ordered):
        if progress is not None:
            progress(place / len(ordered), f"searching {model.name}")
        plans = found_plans(replace(request, model=model, top=1), advise=False).plans
        if not plans:
            break
        found.append(Sized(plans[0], budget, law))
    left = tuple(model.name for model in ordered[len(found) :])
    return Sizing(tuple(found), left, peak_budget(request, budget), law, budget)


def within_reach(
    widths: Sequence[int], made: Callable[[int], ModelSpec], at_peak: float
) -> tuple[ModelSpec, ...]:
    """Return the sizes of a family among which the best one is, given the one that the peak would train."""
    models = [made(width) for width in widths]
    low, high = SMALLEST * at_peak, LARGEST * at_peak
    near = tuple(model for model in models if low <= model.params <= high)
    return near or (min(models, key=lambda model: abs(model.params - at_peak)),)
