"""A recipe on another machine: what of it can be kept, what has to change, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from planner.cost.estimate import Estimate
from planner.cost.price import Unpriced, price
from planner.cost.settings import with_value
from planner.dataclasses import dataclass, replace
from planner.plan import DEGREES, Plan
from planner.runtimes import runtimes
from planner.runtimes.family import Runtime
from planner.search.optimise import search, search_counts
from planner.search.request import Progress, SearchRequest, objective_value, why_left_out
from planner.search.result import SearchResult
from planner.search.settings import OpenSettings
from planner.techniques.settings import SETTINGS

Axes = Mapping[str, object]
"""Axes of a plan by the names of `Plan`."""

PIPELINE: Final = ("vpp", "schedule", "stage_layers")

GROUPS: Final = {
    "micro-batch": ("micro_batch",),
    "recompute": ("recompute",),
    "chunks": PIPELINE,
    "experts": ("ep", "etp"),
    "sharding": ("zero", "zero_shards"),
    "pipeline": ("pp", *PIPELINE),
    "context": ("cp", "cp_method"),
    "tensor": ("tp", "etp", "sequence_parallel"),
    "host": ("offload",),
}
"""What is freed together, in the order in which a user would rather give it up: what sets speed last."""

TOLD: Final = tuple(dict.fromkeys(axis for axes in GROUPS.values() for axis in axes))
"""Axes of a recipe that are kept or told."""


@dataclass(frozen=True)
class NumberFormat:
    """The number format of a recipe, and the one that stands in its place."""

    was: str
    now: str
    """Their names."""
    plain_step: float | None = None
    """What the best plan takes in 16 bits, whether it fits so or not; None where it may not run so. [s]"""


@dataclass(frozen=True)
class Near:
    """A search beside a recipe."""

    result: SearchResult
    """The plans that keep the most of it."""
    request: SearchRequest
    """What was searched for them."""
    freed: tuple[str, ...]
    """Groups of axes that were searched since no plan keeps them; ``settings`` among them where these are."""
    recipe: Estimate | Unpriced
    """The recipe as it is, on the new machine."""
    reason: str | None
    """Why it is no answer; None where it is."""
    free: SearchResult
    """The search that keeps its settings alone."""
    format: NumberFormat | None = None
    """Its number format, where the accelerator has none such."""

    def in_format(self, was: str) -> Near:
        """Return the same for a recipe that ran in another number format."""
        if not self.result.plans:
            return self
        best = self.result.plans[0]
        now, plain = best.job.workload.precision, best.job.workload.model_copy(update={"precision": "bf16"})
        other = price(best.plan, replace(best.job, workload=plain), best.runtime)
        step = other.step if isinstance(other, Estimate) and not other.violations else None
        return replace(self, format=NumberFormat(was, now, step))

    @property
    def changed(self) -> dict[str, tuple[object, object]]:
        """Axes in which the best plan differs from the recipe: what it was, and what it is."""
        if not self.result.plans:
            return {}
        was, now = self.recipe.plan.as_dict(), self.result.plans[0].plan.as_dict()
        told = [name for name in TOLD if name != "zero_shards" and _matters(name, self.result.plans[0].plan)]
        return {name: (was[name], now[name]) for name in told if was[name] != now[name]}

    @property
    def cost(self) -> float | None:
        """Seconds of its best plan over those of a plan that keeps the settings alone; None without one."""
        if not self.result.plans or not self.free.plans:
            return None
        return self.result.plans[0].step / self.free.plans[0].step


def _matters(name: str, plan: Plan) -> bool:
    """Whether an axis changes anything of a plan."""
    if name == "stage_layers":
        return False
    return {"cp_method": plan.cp > 1, "schedule": plan.pp > 1}.get(name, True) is not False


def axes_of(plan: Plan) -> dict[str, object]:
    """Return the axes of a recipe that say something, but for what follows from the count and the batch."""
    silent = {
        "cp_method": plan.cp <= 1,
        "schedule": plan.pp <= 1,
        "stage_layers": plan.stage_layers is None or plan.pp <= 1,
        "zero_shards": plan.zero == 0 or plan.zero_shards >= plan.dp * plan.cp,
    }
    record = plan.as_dict()
    return {name: record[name] for name in TOLD if not silent.get(name, False)}


def near(request: SearchRequest, recipe: Axes, progress: Progress | None = None) -> Near:
    """Search the plans that keep the most of a recipe: all of it, all but one group of axes, or less.

    Of plans that give up one group each, the best is taken; where none does, groups are given up one after
    another, and the settings of the recipe last.

    ``request``: what is asked; its settings are those of the recipe, and what the user has fixed stays fixed;
    ``progress``: as for `search`.
    """
    kept = {**recipe, **request.fixed}
    settled = replace(request, settings=OpenSettings(pinned=tuple(SETTINGS)), fixed=kept)
    unchanged = _unchanged(settled)
    found, asked, freed = search_counts(settled, progress, advise=False), settled, tuple[str, ...]()
    if not found.plans:
        single = [_without(settled, request, (name,), progress) for name in GROUPS]
        able = [one for one in single if one[0].plans]
        if able:
            found, asked, freed = min(able, key=lambda one: _value(one[0], request))
        else:
            found, asked, freed = next(_giving_up(settled, request, progress), single[-1])
    whole = replace(asked, fixed=request.fixed)
    free = search_counts(whole, progress) if found.plans else search(whole, progress)
    found = found if found.plans else free
    reason = _reason(unchanged, request)
    return Near(found, asked, freed, unchanged, reason, free)


Found = tuple[SearchResult, SearchRequest, tuple[str, ...]]


def _without(
    settled: SearchRequest, request: SearchRequest, groups: tuple[str, ...], progress: Progress | None
) -> Found:
    """Search with some groups of axes free, those that the user has fixed aside."""
    freed = {axis for name in groups for axis in GROUPS[name]} - set(request.fixed)
    asked = replace(
        settled, fixed={name: value for name, value in settled.fixed.items() if name not in freed}
    )
    return search_counts(asked, progress, advise=False), asked, groups


def _giving_up(settled: SearchRequest, request: SearchRequest, progress: Progress | None) -> Iterator[Found]:
    """Yield searches that have plans, with more and more groups free."""
    names = tuple(GROUPS)
    allowed = request.settings.allowed if request.settings is not None else ()
    plain = tuple(_plain(runtime) for runtime in settled.runtimes)
    open_too = replace(settled, runtimes=plain, settings=OpenSettings(allowed=allowed))
    for base, more in ((settled, ()), (open_too, ("settings",))):
        for count in range(2, len(names) + 1):
            found = _without(base, request, names[:count], progress)
            if found[0].plans:
                yield found[0], found[1], (*names[:count], *more)


def _plain(runtime: Runtime) -> Runtime:
    """Return a runtime with the settings that it has by default."""
    own = runtimes()[runtime.name].traits
    for name in runtime.searched:
        value = SETTINGS[name].value_of(own)
        runtime = with_value(runtime, name, value) if value is not None else runtime
    return runtime


def _value(result: SearchResult, request: SearchRequest) -> float:
    return objective_value(request.objective, result.plans[0])


def _unchanged(settled: SearchRequest) -> Estimate | Unpriced:
    """Price the recipe as it is on the first machine that is asked for."""
    job, runtime = next(settled.jobs())
    known = dict(settled.fixed)
    degrees = {name: float(str(known[name])) for name in DEGREES if name in known}
    own = Plan(**(known | degrees))
    dp = job.gpus / (own.tp * own.pp * own.cp)
    passes = job.workload.global_batch / (own.micro_batch * dp)
    shards = own.zero_shards if "zero_shards" in known else (dp * own.cp if own.zero else 1.0)
    layers = tuple(own.stage_layers) if own.stage_layers is not None else None
    plan = replace(own, dp=dp, num_microbatches=passes, zero_shards=shards, stage_layers=layers)
    return price(plan, job, runtime, settled.memory_limit)


def _reason(unchanged: Estimate | Unpriced, request: SearchRequest) -> str | None:
    """Say why the recipe as it is is none of the answers."""
    if unchanged.violations:
        first = unchanged.violations[0]
        return f"{first.found}; needs {first.expected} ({first.rule})"
    if isinstance(unchanged, Unpriced):
        raise AssertionError("a plan without a price breaks a rule")
    return why_left_out(unchanged, request)
