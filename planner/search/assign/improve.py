"""Better plans out of promising ones: the layers of each stage, and how many of them are recomputed.

A plan can say one recompute choice for all layers, or ``full:N``: the first N layers of every stage. For each
of these the best split of the layers is found exactly; the problem in which every layer chooses freely gives
the bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, estimate
from planner.cost.legal import all_rules
from planner.numeric import Column
from planner.plan import Plan
from planner.rules import violations
from planner.search.assign.decompose import Solution
from planner.search.assign.modules import known_modules, module_names
from planner.search.assign.plan_costs import PlanCosts, is_assignable, plan_costs, stage_columns
from planner.search.assign.problem import Problem
from planner.search.assign.program import solve
from planner.search.assign.sweep import best_partition
from planner.search.assign.uneven import Uneven, missing_record, uneven_plans
from planner.search.candidates import Candidate
from planner.search.scan import Scan
from planner.techniques.schedules import SCHEDULES

PRICED_IN_FULL = 3
"""Splits of a candidate, fastest passes first, whose end of the step is priced too."""

TIE = 1e-7
"""Share of a stage's time that full memory counts for, where splits are equally fast."""

BOUND_SECONDS = 2.0
"""Time for the integer program, where the decomposition leaves a gap. [s]"""

MOST_TRIED = 12
"""Candidates whose recompute is refined."""


@dataclass(frozen=True)
class Improver:
    """Assigns the layers of plans of one scan.

    Parameters
    ----------
    scan : Scan
        Job, runtime, choices and memory limit.
    memory_limit : float, optional
        Device memory that may be used. [byte]
    """

    scan: Scan
    memory_limit: float | None = None
    _plain: dict[Plan, Estimate] = field(default_factory=dict, compare=False, repr=False)

    def price(self, plan: Plan) -> Estimate:
        """Price a plan in full."""
        return estimate(plan, self.scan.job, self.scan.runtime, self.memory_limit)

    def is_safe(self, known: Estimate) -> bool:
        """Whether a priced plan obeys all rules and fits within the accepted risk."""
        return known.feasible and known.peak <= self.scan.limit

    def best(self, plan: Plan) -> Estimate | None:
        """Return the fastest safe plan with these degrees, of all splits and recompute choices tried."""
        plan = replace(plan, stage_layers=self.scan.split)
        case = case_of(plan, self.scan.job, self.scan.runtime)
        if self.scan.split is None and is_assignable(plan, case):
            found = [self.price(one) for one in self._splits(plan)]
        else:
            found = self._thriftiest(plan)
        safe = [known for known in found if self.is_safe(known)]
        return min(safe, key=lambda known: known.step, default=None)

    def with_split(self, plan: Plan, costs: PlanCosts) -> Estimate | None:
        """Return a plan with the best split for what it recomputes; None where that is not safe."""
        problem = costs.problem
        columns = stage_columns(costs, 0, tie=TIE)
        partition = best_partition(columns, problem.sum_weight, problem.slowest_weight)
        if partition is None:
            return None
        found = self.price(replace(plan, stage_layers=partition.sizes))
        return found if self.is_safe(found) else None

    def bound(self, plan: Plan) -> Solution | None:
        """Solve the problem in which every layer chooses freely; None where its price would be no bound."""
        if not SCHEDULES[plan.schedule].additive or self.scan.split is not None:
            return None
        if not is_assignable(plan, case_of(plan, self.scan.job, self.scan.runtime)):
            return None
        names = (*self.scan.choices.recompute, *self._between(plan))
        costs = plan_costs(plan, self.scan.job, self.scan.runtime, names, self.scan.limit, relaxed=True)
        return solve(costs.problem, BOUND_SECONDS)

    def counted(self, plan: Plan) -> list[int]:
        """Return the numbers of layers that ``full:N`` may have, where recompute is open."""
        choices = self.scan.choices.recompute
        if not {"none", "full"} <= set(choices):
            return []
        most = -(-self.scan.job.model.num_layers // int(plan.pp))
        step = int(plan.vpp)
        numbers = list(range(step, most + 1, step))
        if not numbers:
            return []
        tried = replace(plan, recompute=f"full:{numbers[0]}")
        case = case_of(tried, self.scan.job, self.scan.runtime)
        refused = any("recompute" in broken.rule for broken in violations(all_rules(tried, case)))
        return [] if refused else numbers

    def _splits(self, plan: Plan) -> list[Plan]:
        """Return the plans with the fastest passes, each with its best split."""
        values: list[tuple[float, str, tuple[int, ...]]] = []

        def offer(name: str, columns: Column, problem: Problem) -> None:
            partition = best_partition(columns, problem.sum_weight, problem.slowest_weight)
            if partition is not None:
                values.append((partition.value, name, partition.sizes))

        job, runtime, limit = self.scan.job, self.scan.runtime, self.scan.limit
        for name in (*self.scan.choices.recompute, *self._between(plan)):
            costs = plan_costs(plan, job, runtime, [name], limit)
            offer(name, stage_columns(costs, 0, tie=TIE), costs.problem)
        numbers = self.counted(plan)
        if numbers:
            costs = plan_costs(plan, job, runtime, ["full", "none"], limit)
            for number in numbers:
                columns = stage_columns(costs, 0, plain=1, first=number, tie=TIE)
                offer(f"full:{number}", columns, costs.problem)
        values.sort()
        return [
            replace(plan, recompute=name, stage_layers=sizes) for _, name, sizes in values[:PRICED_IN_FULL]
        ]

    def _between(self, plan: Plan) -> list[str]:
        """Return the modules to recompute, one more each time, where memory is short and the choice open."""
        if not self._modules or self.is_safe(self.plain(plan)):
            return []
        return module_names(plan, self.scan.job, self.scan.runtime, self._modules)

    def plain(self, plan: Plan) -> Estimate:
        """Price a plan that recomputes nothing, with its default split."""
        plain = replace(plan, recompute="none", stage_layers=self.scan.split)
        if plain not in self._plain:
            self._plain[plain] = self.price(plain)
        return self._plain[plain]

    @cached_property
    def _modules(self) -> tuple[str, ...]:
        """The modules that may be recomputed by themselves; none where the user has chosen."""
        if not {"none", "full"} <= set(self.scan.choices.recompute):
            return ()
        return known_modules(self.scan.job, self.scan.runtime)

    def _thriftiest(self, plan: Plan) -> list[Estimate]:
        """Return plans that keep their split and do as little for memory as they must."""
        names = [f"full:{number}" for number in self.counted(plan)] if plan.recompute != "none" else []
        choices = [[replace(plan, recompute=name) for name in reversed(names)]]
        if plan.recompute != "none":
            choices.append([replace(plan, recompute=name) for name in reversed(self._between(plan))])
        found = [self._last_safe(plans) for plans in choices]
        return [known for known in found if known is not None]

    def _last_safe(self, plans: Sequence[Plan]) -> Estimate | None:
        """Return the last plan that is safe; each needs more memory than the one before."""
        low, high, best = 0, len(plans), None
        while low < high:
            middle = (low + high) // 2
            known = self.price(plans[middle])
            if self.is_safe(known):
                best, low = known, middle + 1
            else:
                high = middle
        return best


@dataclass(frozen=True)
class Improvement:
    """What assignment did for the best plan of a job.

    Parameters
    ----------
    uniform, step : float
        Seconds of the best plan before and after. [s]
    solution : Solution, optional
        The bound of its passes, every layer choosing freely; None where there is none.
    passes : float
        Seconds of its passes. [s]
    seconds : float
        Time that assignment took. [s]
    tried : int
        Candidates assigned.
    uneven : Uneven
        Plans that fit with another split than the default one, and those that fit with none.
    """

    uniform: float
    step: float
    solution: Solution | None
    passes: float
    seconds: float
    tried: int
    uneven: Uneven = field(default_factory=Uneven)

    @property
    def gain(self) -> float:
        """Share of the uniform plan's time that was saved; 0 where there was none. [-]"""
        return max(0.0, 1.0 - self.step / self.uniform) if np.isfinite(self.uniform) else 0.0


def solver_record(improvement: Improvement, error_band: float | None) -> dict[str, object]:
    """Return what a search tells of its assignment: bound, gap, time, and what the gain is worth.

    Parameters
    ----------
    improvement : Improvement
        What assignment did for the best plan.
    error_band : float, optional
        How far the model has been from measured runs of that kind; None where it was never validated. [-]
    """
    solution, passes = improvement.solution, improvement.passes
    bound = min(solution.bound, passes) if solution is not None else None
    return {
        "method": solution.method if solution is not None else None,
        "incumbent_s": passes,
        "bound_s": bound,
        "gap": None if bound is None else 1.0 - bound / passes,
        "seconds": improvement.seconds,
        "tried": improvement.tried,
        "uniform_step_s": improvement.uniform if np.isfinite(improvement.uniform) else None,
        "gain": improvement.gain,
        "gain_is_within_error": None if error_band is None else improvement.gain <= error_band,
        "note": solution.note if solution is not None else "",
        "dropped": improvement.uneven.dropped,
        "closest": _closest(improvement.uneven),
    }


def _closest(uneven: Uneven) -> dict[str, object] | None:
    """Return the dropped plan that misses least: where it fails, what it has there, and what would do."""
    if uneven.closest is None:
        return None
    plan, missing = uneven.closest
    return {"plan": plan.slug} | missing_record(missing)


def improve(
    improver: Improver,
    done: dict[Plan, Estimate],
    squeezed: Sequence[Candidate],
    top: int,
    tight: Sequence[Candidate] = (),
) -> tuple[dict[Plan, Estimate], Improvement | None]:
    """Assign the layers of the best plans, and of plans that could be better with less recompute.

    Parameters
    ----------
    improver : Improver
        Job, runtime and limits.
    done : dict
        Candidates refined so far, with their prices.
    squeezed : sequence of Candidate
        Candidates that recompute because nothing else fits, the most promising first, with their bounds
        without recompute.
    top : int
        Plans to return at least.
    tight : sequence of Candidate
        Candidates that may fit with another split than the default one.

    Returns
    -------
    tuple of (dict, Improvement or None)
        ``done`` with better plans in the places of those that they improve, and what was gained.
    """
    started = time.perf_counter()
    better = dict(done)
    uniform = min((known.step for known in done.values()), default=np.inf)
    leaders = sorted(done, key=lambda plan: done[plan].step)[:top]
    tried = _assign(improver, better, [(0.0, plan) for plan in leaders])
    hopeful = _hopeful(improver, squeezed, set(leaders), _least(better))
    tried += _assign(improver, better, hopeful, most=MOST_TRIED)
    scan, best = improver.scan, _least(better)
    uneven = uneven_plans(tight, scan.job, scan.runtime, scan.limit, best, scan.keep_tight)
    bounds = {candidate.plan: candidate.bound for candidate in tight}
    fitting = [(bounds[plan], plan) for plan in uneven.fitting]
    tried += _assign(improver, better, fitting, lambda plan: improver.with_split(plan, uneven.fitting[plan]))
    likely = sorted(fitting, key=lambda pair: better[pair[1]].step if pair[1] in better else np.inf)
    _assign(improver, better, likely[:MOST_TRIED])
    if not better:
        return better, None
    first = min(better.values(), key=lambda known: known.step)
    solution = improver.bound(first.plan)
    ends = first.time.dp_comm + first.time.optimizer + first.time.offload
    seconds = time.perf_counter() - started
    return better, Improvement(uniform, first.step, solution, first.step - ends, seconds, tried, uneven)


def _least(known: dict[Plan, Estimate]) -> float:
    """Return the seconds of the fastest; infinite where there is none. [s]"""
    return min((one.step for one in known.values()), default=np.inf)


def _assign(
    improver: Improver,
    better: dict[Plan, Estimate],
    plans: Sequence[tuple[float, Plan]],
    find: Callable[[Plan], Estimate | None] | None = None,
    most: int | None = None,
) -> int:
    """Put better plans into the places of those that they improve; return how many were tried.

    Plans come with what they could take at least; those that could not be the best are passed over, and do
    not count among the ``most`` that are tried.
    """
    best, tried = _least(better), 0
    for optimistic, plan in plans:
        if optimistic >= best:
            continue
        if tried == most:
            break
        tried += 1
        found = (find or improver.best)(plan)
        if found is not None and (plan not in better or found.step < better[plan].step):
            better.pop(plan, None)
            place = replace(found.plan, stage_layers=plan.stage_layers)
            better[place] = min(found, better.get(place, found), key=lambda known: known.step)
            best = min(best, found.step)
    return tried


def _hopeful(
    improver: Improver, squeezed: Sequence[Candidate], known: set[Plan], best: float
) -> list[tuple[float, Plan]]:
    """Return the plans that recompute because nothing else fits, with the least that they could take."""
    seen = {replace(plan, recompute="none") for plan in known}
    hopeful: list[tuple[float, Plan]] = []
    for candidate in squeezed:
        plan = replace(candidate.plan, recompute="none")
        if candidate.bound < best and plan not in seen and improver.counted(candidate.plan):
            seen.add(plan)
            hopeful.append((candidate.bound, candidate.plan))
    return hopeful
