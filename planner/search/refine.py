"""Refinement: give promising candidates the best split of their layers, in the order of their bounds."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate, floor_seconds
from planner.cost.layout import layer_weights, piece_costs, priced_layers
from planner.cost.parts import PlanParts
from planner.cost.stages import ENDS, weighted_split
from planner.plan import Plan
from planner.search.assign.improve import Improvement, Improver, improve
from planner.search.candidates import Candidate, ScanReport
from planner.search.guard import Guard, Key
from planner.search.hosted import fewest_hosted, has_more_hosted
from planner.search.request import objective_bound, objective_key, objective_value
from planner.search.scan import KEEP_HOSTED, Scan

MOST_REFINED = 256
"""Candidates refined at most: about a millisecond each."""


MOST_HOSTED = 64
"""Candidates whose layers on the host are counted at most: some milliseconds each."""

FIRST = 5
"""Candidates of least price that are refined before the bounds say which; as many plans are assigned. [-]"""


@dataclass(frozen=True)
class Refinement:
    """The refined plans of one job, and what is proved of the first.

    Parameters
    ----------
    plans : tuple of Estimate
        Best first, by their prices and, where known, their played steps.
    refined : int
        Candidates refined.
    open_bound : float
        Seconds that no candidate which was not refined can beat by the closed forms; infinite where there is
        none. [s]
    best : float
        Seconds by which the first plan is ranked; infinite where there is none. [s]
    improvement : Improvement, optional
        What assignment did for the best plan, where it ran.
    uneven_bound : float
        The same as ``open_bound`` for plans that are safe in memory with another split of their layers than
        the default one; 0 where these were not looked at. [s]
    floor : float
        Seconds that no refined plan can beat, however it is played. [s]
    open_bytes : float
        Where memory is asked for, what candidates that were not refined need at least; infinite where there
        is none. [byte]
    """

    plans: tuple[Estimate, ...]
    refined: int
    open_bound: float
    best: float = float("inf")
    improvement: Improvement | None = None
    uneven_bound: float = 0.0
    floor: float = 0.0
    open_bytes: float = float("inf")

    @property
    def bound(self) -> float:
        """Seconds that no plan of the space can beat by the closed forms. [s]"""
        return min(self.open_bound, self.best)

    @property
    def proved(self) -> bool:
        """Whether the fastest plan is proved fastest: no other one is left whose bound is below it."""
        return bool(self.plans) and self.open_bound >= self.best

    @property
    def any_split(self) -> bool:
        """Whether the proof is over plans that are safe in memory with any split of their layers."""
        return self.uneven_bound >= self.best


def balanced(plan: Plan, scan: Scan) -> Plan | None:
    """Return the plan split to make the slowest stage fastest; None where nothing is to split.

    Chunks of an interleaved pipeline are split so where layers are unlike; equal ones stay even.
    """
    alike = len(set(scan.job.model.layers)) == 1
    if plan.pp == 1 or (plan.vpp > 1 and alike) or scan.split is not None:
        return None
    case = case_of(plan, scan.job, scan.runtime)
    model = case.model
    pieces = [(name, case.recompute.layers > 0) for name in model.blocks]
    ends = [("embedding", False), ("head", False), *([("prediction", False)] if model.prediction else [])]
    costs = piece_costs(case, plan, priced_layers(case, plan, [*pieces, *ends]), [*pieces, *ends])
    seconds = {name: float(cost.seconds) for (name, _), cost in costs.items()}
    last = seconds["head"]
    if model.prediction is not None:
        extra = seconds["prediction"] + seconds[model.prediction.block] + seconds["head"]
        last += model.prediction.layers * extra
    weights = tuple(seconds[name] for name in model.layers if name not in ENDS)
    split = weighted_split(weights, int(plan.pp * plan.vpp), last, first=seconds["embedding"])
    return replace(plan, stage_layers=split)


def apart(plan: Plan, scan: Scan) -> Plan | None:
    """Return the plan with prediction layers and loss on stages of their own; None where that cannot be."""
    split = _before_bare(plan, scan, 2)
    return None if split is None else replace(plan, stage_layers=(*split, 0, 0))


def beside(plan: Plan, scan: Scan) -> Plan | None:
    """Return the plan with prediction layers beside the last decoder layers, and the loss alone."""
    split = _before_bare(plan, scan, 1)
    return None if split is None else replace(plan, stage_layers=(*split, 0), prediction_apart=True)


def _before_bare(plan: Plan, scan: Scan, bare: int) -> tuple[int, ...] | None:
    """Return the layers of all but the ``bare`` last stages of a model with prediction layers."""
    model, parts = scan.job.model, int(plan.pp * plan.vpp) - bare
    if model.prediction is None or not scan.runtime.bare_ends or scan.split is not None:
        return None
    if plan.pp == 1 or not 1 < parts <= model.num_layers:
        return None
    work = scan.job.workload
    weights = layer_weights(model, work.seq_len, work.document_tokens)
    extra = weights[model.prediction.block] + 4.0 * model.hidden * model.hidden
    last = model.prediction.layers * extra if bare == 1 else 0.0
    return weighted_split(tuple(weights[name] for name in model.layers), parts, last)


def best_of(candidate: Candidate, scan: Scan, memory_limit: float | None) -> Estimate:
    """Return the best of a candidate's default split, its balanced one, and one with bare ends."""
    plan = replace(candidate.plan, stage_layers=scan.split)
    best = estimate(plan, scan.job, scan.runtime, memory_limit)
    for other in (make(candidate.plan, scan) for make in (balanced, apart, beside)):
        if other is None or _cut(other) == _cut(best.plan):
            continue
        uneven = estimate(other, scan.job, scan.runtime, memory_limit)
        safe = uneven.feasible and uneven.peak <= scan.limit
        best = uneven if safe and uneven.step < best.step else best
    return best


def _cut(plan: Plan) -> tuple[object, ...]:
    return plan.stage_layers, plan.prediction_apart


def least_of(candidate: Candidate, scan: Scan) -> float:
    """Seconds that a candidate takes at least under the splits that refinement tries, however played. [s]

    Playing a step takes a hundred times as long.
    """
    default = replace(candidate.plan, stage_layers=scan.split)
    tried = (default, *(make(candidate.plan, scan) for make in (balanced, apart, beside)))
    parts = [PlanParts(plan, case_of(plan, scan.job, scan.runtime)) for plan in tried if plan is not None]
    return min(floor_seconds(one, one.step) for one in parts)


@dataclass
class _Candidates:
    """Candidates of a scan in the order of their bounds, refined as far as they are asked for."""

    scan: Scan
    report: ScanReport
    objective: str
    memory_limit: float | None
    known: dict[Plan, Estimate] = field(default_factory=dict)
    tried: set[Plan] = field(default_factory=set)
    place: int = 0
    open_bound: float = float("inf")
    hosted: int = 0

    def worth(self, seconds: float) -> float:
        """Return the least that the objective can be of a plan that takes at least some seconds."""
        return objective_bound(self.objective, self.scan.job, seconds)

    def value(self, known: Estimate) -> float:
        """Return the objective of a plan at its price."""
        return objective_value(self.objective, known)

    def refine(self, candidate: Candidate) -> Estimate:
        """Refine a candidate."""
        self.tried.add(candidate.plan)
        found = best_of(candidate, self.scan, self.memory_limit)
        self.known[candidate.plan] = found
        return found

    def until(self, best: float) -> None:
        """Refine candidates until the next bound is no better than what is to be beaten.

        Of those that take longer than the first few known plans, however they are played, no more is asked.
        """
        promising = self.report.promising
        values = sorted(map(self.value, self.known.values()))
        while self.place < len(promising):
            candidate = promising[self.place]
            if self.worth(candidate.bound) >= best or len(self.tried) >= MOST_REFINED:
                self.open_bound = candidate.bound
                return
            self.place += 1
            if candidate.plan in self.tried:
                continue
            if len(values) >= FIRST and self.worth(least_of(candidate, self.scan)) >= values[FIRST - 1]:
                self.tried.add(candidate.plan)
                continue
            found = self.value(self.refine(candidate))
            best = min(best, found)
            insort(values, found)
        self.open_bound = promising[-1].bound if len(promising) >= self.scan.keep else float("inf")

    def host(self, top: int) -> None:
        """Put activations on the host where that could be one of the ``top`` plans that take least time."""
        improver = Improver(self.scan, self.memory_limit)
        least = self.report.hosted
        for candidate in least[self.hosted :]:
            known = sorted(map(self.value, self.known.values()))
            worst = known[top - 1] if len(known) >= top else float("inf")
            if self.worth(candidate.bound) >= worst:
                break
            if self.hosted >= MOST_HOSTED:
                self.open_bound = min(self.open_bound, candidate.bound)
                break
            self.hosted += 1
            found = fewest_hosted(improver, candidate)
            if found is not None:
                self.known = {
                    plan: known for plan, known in self.known.items() if not has_more_hosted(known, found)
                } | {found.plan: found}
        else:
            if len(least) >= KEEP_HOSTED:
                self.open_bound = min(self.open_bound, least[-1].bound)


def refine(
    scan: Scan,
    report: ScanReport,
    objective: str,
    top: int,
    memory_limit: float | None = None,
    uniform: bool = True,
    guard: Guard | None = None,
) -> Refinement:
    """Refine candidates until the next bound is no better than the best plan.

    What is found and proved of the best plan does not depend on how many are asked for: further plans are
    refined after it.

    Parameters
    ----------
    scan, report : Scan, ScanReport
        The scan and what it found.
    objective : str
        What the ranking minimises.
    top : int
        Plans to return at least, where there are so many.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    uniform : bool
        Whether all stages keep one recompute choice for all of their layers, and nearly equal layers; if not,
        the best plans are assigned by the solver too.
    guard : Guard, optional
        Plays the best plan: where its price is far from its played step, the search goes on.

    Returns
    -------
    Refinement
        Plans, best first.
    """
    guard = guard or Guard()
    if objective_bound(objective, scan.job, 1.0) == float("inf"):
        objective = "time"
    work = _Candidates(scan, report, objective, memory_limit)
    for candidate in report.best[:FIRST]:
        work.refine(candidate)
    work.until(min(map(work.value, work.known.values()), default=float("inf")))
    improvement = None
    if not uniform and (work.known or report.tight):
        improver = Improver(scan, memory_limit)
        work.known, improvement = improve(improver, work.known, report.squeezed, FIRST, report.tight)
    work.host(FIRST)
    if not work.known:
        return Refinement((), len(work.tried), work.open_bound)
    key = partial(objective_key, objective)
    leader = _leader(work, guard, key)
    refined, floor, open_bound = len(work.tried | work.known.keys()), floor_of(work.known), work.open_bound
    work.host(top)
    for candidate in report.best[FIRST:top]:
        if candidate.plan not in work.tried:
            work.refine(candidate)
    uneven = improvement.uneven if improvement is not None else None
    return Refinement(
        tuple(sorted(work.known.values(), key=lambda plan: key(plan, guard.known_seconds(plan)))),
        refined,
        open_bound,
        guard.seconds(leader),
        improvement,
        uneven.open_bound if uneven is not None and scan.split is None else 0.0,
        floor,
    )


def _leader(work: _Candidates, guard: Guard, key: Key) -> Estimate:
    """Return the best plan, played: candidates that its price alone would beat are refined too.

    Where prices turn out to be wrong, that holds for the first few plans and not the best alone.
    """
    most = 1
    while True:
        shown = guard.ranked(work.known.values(), most, key)
        last = shown[-1]
        best, place = key(last, guard.seconds(last))[0], work.place
        if most == 1 and any(guard.known_seconds(known) != known.step for known in work.known.values()):
            most = FIRST
            continue
        if work.worth(work.open_bound) >= best:
            return shown[0]
        work.until(best)
        if work.place == place:
            return shown[0]


def floor_of(done: Mapping[Plan, Estimate]) -> float:
    """Seconds that no refined plan can beat, however it is played; 0 where there is none. [s]"""
    return min((plan.floor for plan in done.values()), default=0.0)
