"""The plan inside each site: the existing search, with room left for what a method keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from planner.cost.estimate import Estimate
from planner.cost.memory.fit import safe_share
from planner.cost.price import price
from planner.dataclasses import dataclass, replace
from planner.inputs.hardware import HardwareProfile
from planner.inputs.record import Sourced
from planner.plan import Plan
from planner.runtimes.family import Runtime
from planner.search.optimise import found_plans
from planner.search.request import SearchRequest
from planner.search.result import SearchResult
from planner.search.sites.joint import best_joint
from planner.search.sites.request import SitesRequest
from planner.search.sites.unlike import Chained, best_chained
from planner.techniques.compress.family import FULL
from planner.techniques.sync.family import Axis

CANDIDATES = 12
"""Plans that each kind of site offers. [-]"""

LARGER = (2, 4, 8)
"""Micro-batches that are tried beside those of the best plans, where each costs an exchange. [-]"""

TIE = 1.01
"""Times the fastest step within which a plan that has the room is taken, and no other searched for. [-]"""

Inside = Mapping[str, Estimate]
"""The plan of a replica at each site, by the site's name."""

Kind = tuple[str, int]
"""Sites are alike in their cluster and the accelerators of a replica."""


def with_memory(cluster: HardwareProfile, limit: float) -> HardwareProfile:
    """Return a cluster whose accelerators have as much memory at least. [byte]"""
    device = cluster.pool.accelerator
    if limit <= device.memory_usable:
        return cluster
    size = Sourced(limit, f"{limit:.0f} B", "what a method spares beside what the device has", "user")
    larger = device.model_copy(update={"memory_visible": size, "memory_driver": None})
    pool = cluster.pool.model_copy(update={"accelerator": larger})
    return cluster.model_copy(update={"pools": (pool,)})


def unpressed(plan: Plan) -> bool:
    """Whether a plan neither recomputes nor offloads, so that more memory hardly helps it."""
    return (plan.recompute, plan.offload) == ("none", "none")


def plan_shards(plan: Plan) -> float:
    """Return over how many accelerators a replica's parameters or optimizer states are spread. [-]"""
    shards = float(plan.zero_shards) if plan.zero else 1.0
    return float(plan.tp * plan.pp) * shards


@dataclass
class Plans:
    """Plans inside the sites, found once for each need of memory."""

    request: SitesRequest

    def __post_init__(self) -> None:
        """Start with nothing searched."""
        self._found: dict[tuple[float, bool], Inside | None] = {}
        self._offered: dict[tuple[Kind, float, bool], list[Estimate]] = {}
        self._searched: dict[tuple[object, ...], list[Estimate]] = {}
        self._joint: dict[Axis, Estimate | None] = {}
        self._chained: list[Chained | None] = []
        self.searched = 0
        self.other = float("inf")  # what a step takes another way, for the same loss [s]
        self._without: SearchRequest | None = None

    @property
    def failed(self) -> SearchResult | None:
        """The last search inside a site that found no plan, with what would fit."""
        return None if self._without is None else found_plans(self._without)

    def joint(self, axis: Axis) -> Estimate | None:
        """Return the fastest plan of one job that an axis spreads over the sites; None where none fits."""
        if axis not in self._joint:
            self._joint[axis], searched = best_joint(self.request, axis, self.other)
            self.searched += searched
        return self._joint[axis]

    def chained(self) -> Chained | None:
        """Return the fastest pipeline of one job over unlike sites; None where none fits."""
        if not self._chained:
            found, searched = best_chained(self.request)
            self._chained.append(found)
            self.searched += searched
        return self._chained[0]

    def with_room(self, copies: float, runner: bool) -> Inside | None:
        """Return the plans with room for so many copies of the parameters; None where none fits.

        Below none, a method spares as many, which a larger plan may take.

        ``runner`` asks for plans that the runtime can train with torchft.
        """
        key = (copies, runner)
        if key not in self._found:
            self._found[key] = self._best(copies, runner)
        return self._found[key]

    def choices(self, copies: float, runner: bool) -> list[Inside]:
        """Return several plans for all sites, where these are alike, else the best: the best is first.

        Larger micro-batches are among them, of which a step has fewer.
        """
        best, kinds = self.with_room(copies, runner), self._kinds()
        if best is None or len(kinds) > 1:
            return [] if best is None else [best]
        name = next(iter(kinds.values()))
        offers = [*self._offers(name, copies, runner)]
        if runner and "micro_batch" not in self.request.fixed:
            for size in LARGER:
                if any(answer.plan.num_microbatches == 1 for answer in offers):
                    break
                larger = self._search(name, copies, runner, {"micro_batch": size})
                offers += [answer for answer in larger if self._fits(answer, name, copies)]
        return [best, *({one.name: plan for one in self.request.profile.sites} for plan in offers)]

    def _best(self, copies: float, runner: bool) -> Inside | None:
        kinds = self._kinds()
        offers = {kind: self._offers(name, copies, runner) for kind, name in kinds.items()}
        if not all(offers.values()):
            return None
        if self.request.alike and len(kinds) > 1 and not self.request.batches:
            chosen = self._common(kinds, offers, copies, runner)
        else:
            chosen = {kind: min(plans, key=lambda one: one.step) for kind, plans in offers.items()}
        if chosen is None:
            return None
        return {one.name: chosen[self._kind(one.name)] for one in self.request.profile.sites}

    def _kind(self, name: str) -> Kind:
        site = next(one for one in self.request.profile.sites if one.name == name)
        return self.request.clusters[name].name, site.gpus // site.replicas

    def _kinds(self) -> dict[Kind, str]:
        found: dict[Kind, str] = {}
        for site in self.request.profile.sites:
            found.setdefault(self._kind(site.name), site.name)
        return found

    def _runtime(self, runner: bool) -> Runtime:
        return replace(self.request.runtime, hybrid_sharding=False) if runner else self.request.runtime

    def _limit(self, name: str, copies: float, shards: float) -> float:
        """Return the memory that training may use beside what a method keeps. [byte]"""
        usable = self.request.clusters[name].pool.accelerator.memory_usable
        limit = min(usable, self.request.memory_limit or usable)
        return limit - copies * FULL * self.request.model.params / shards

    def _offers(self, name: str, copies: float, runner: bool) -> list[Estimate]:
        """Return plans of one site that fit beside what the method keeps, best first.

        Where a plan that ties with the best for less has the room, no other is searched for, nor where memory
        is spared that the best plan does not lack.
        """
        kind = self._kind(name)
        key = (kind, copies, runner)
        if key not in self._offered:
            if copies:
                self._offers(name, 0.0, runner)
            known = [
                (need, found)
                for (one, need, other), found in self._offered.items()
                if (one, other) == (kind, runner) and found and need >= min(copies, 0.0)
            ]
            least = max((found[0].step for need, found in known if need <= copies), default=0.0)
            roomy = self._roomy((one for _, found in known for one in found), name, copies)
            free = copies < 0 and roomy and unpressed(roomy[0].plan)
            if not free and (not roomy or roomy[0].step > TIE * least):
                roomy = self._roomy(self._search(name, copies, runner), name, copies)
            self._offered[key] = roomy
        return self._offered[key]

    def _roomy(self, answers: Iterable[Estimate], name: str, copies: float) -> list[Estimate]:
        """Return the plans that fit beside what a method keeps, each once, best first."""
        fitting = {one.plan: one for one in answers if self._fits(one, name, copies)}
        return sorted(fitting.values(), key=lambda one: one.step)

    def _search(
        self, name: str, copies: float, runner: bool, more: Mapping[str, object] = MappingProxyType({})
    ) -> list[Estimate]:
        """Search inside one site, once for each question; ``more`` axes are set."""
        kind = self._kind(name)
        limit = self._limit(name, copies, float(kind[1]))
        key = (kind, limit, runner, tuple(more.items()))
        if key not in self._searched:
            self._searched[key] = self._search_anew(name, limit, runner, more)
        return self._searched[key]

    def _search_anew(
        self, name: str, limit: float, runner: bool, more: Mapping[str, object]
    ) -> list[Estimate]:
        asked, gpus = self.request, self._kind(name)[1]
        if limit <= 0:
            return []
        fixed = {**asked.fixed, **({"pp": 1} if runner else {}), **more}
        request = SearchRequest(
            model=asked.model,
            clusters=(with_memory(asked.clusters[name], limit),),
            gpu_counts=(gpus,),
            workload=asked.workload_at(name),
            runtimes=(self._runtime(runner),),
            fixed=fixed,
            top=CANDIDATES,
            memory_limit=limit,
            oom_risk=asked.oom_risk,
            settings=asked.settings,
        )
        result = found_plans(request, advise=False)
        self.searched += result.valid
        self._without = request if not result.plans else self._without
        return list(result.plans)

    def _fits(self, answer: Estimate, name: str, copies: float) -> bool:
        share = safe_share(self.request.oom_risk, answer.runtime.traits.allocator.memory_spread)
        return answer.peak <= share * self._limit(name, copies, plan_shards(answer.plan))

    def _common(
        self, kinds: Mapping[Kind, str], offers: Mapping[Kind, list[Estimate]], copies: float, runner: bool
    ) -> dict[Kind, Estimate] | None:
        """Return one layout for all sites, since replica groups exchange shard by shard."""
        best: dict[Kind, Estimate] | None = None
        for plan in {answer.plan: None for plans in offers.values() for answer in plans}:
            answers: dict[Kind, Estimate] = {}
            for kind, name in kinds.items():
                job = next(iter(offers[kind])).job
                answer = price(plan, replace(job, gpus=kind[1]), self._runtime(runner))
                if isinstance(answer, Estimate) and answer.feasible and self._fits(answer, name, copies):
                    answers[kind] = answer
            slowest = max((one.step for one in answers.values()), default=0.0)
            if len(answers) == len(kinds) and (
                best is None or slowest < max(one.step for one in best.values())
            ):
                best = answers
        return best
