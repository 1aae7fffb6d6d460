"""Better plans out of promising ones: the layers of each stage, and how many of them are recomputed.

A plan can say one recompute choice for all layers, or ``full:N``: the first N layers of every stage. For each
of these the best split of the layers is found exactly; the problem in which every layer chooses freely gives
the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from planner.cost.case import case_of
from planner.cost.estimate import Estimate, floor_seconds, least_seconds, parts_of
from planner.cost.legal import all_rules
from planner.cost.step.parts import PlanParts
from planner.dataclasses import dataclass, field, replace
from planner.numeric import Column
from planner.plan import Plan
from planner.rules import violations
from planner.search.assign.decompose import Solution
from planner.search.assign.modules import Freed, freed_by, known_modules, module_names
from planner.search.assign.plan_costs import PlanCosts, is_assignable, plan_costs, stage_columns
from planner.search.assign.problem import AssignProblem
from planner.search.assign.program import solve
from planner.search.assign.sweep import best_partition, bottleneck
from planner.search.assign.uneven import fits_somehow
from planner.search.known import peak_of, priced
from planner.search.scope import KEPT_WHOLE, Scope
from planner.techniques.schedules import SCHEDULES

PRICED_IN_FULL = 3
"""Splits of a candidate, fastest passes first, whose end of the step is priced too."""

TIE = 1e-7
"""Share of a stage's time that full memory counts for, where splits are equally fast."""

BOUND_SECONDS = 2.0
"""Time for the integer program, where the decomposition leaves a gap. [s]"""


@dataclass(frozen=True)
class Improver:
    """Prices the plans of one scan, and assigns their layers."""

    scan: Scope
    """Job, runtime, choices and memory limit."""
    memory_limit: float | None = None
    """Device memory that may be used. [byte]"""
    assigned: set[Plan] = field(default_factory=set, compare=False)
    """Plans whose layers were assigned, as they are without recompute."""
    _priced: dict[Plan, Estimate] = field(default_factory=dict, compare=False, repr=False)
    _last: dict[Plan, tuple[PlanCosts, Column | None]] = field(
        default_factory=dict, compare=False, repr=False
    )
    _bounds: dict[Plan, float] = field(default_factory=dict, compare=False, repr=False)
    _parts: dict[Plan, PlanParts] = field(default_factory=dict, compare=False, repr=False)
    _counted: dict[Plan, list[int]] = field(default_factory=dict, compare=False, repr=False)

    def anew(self, scan: Scope) -> Improver:
        """Return one of the same job that has assigned nothing, and knows what was priced."""
        return replace(self, scan=scan, assigned=set())

    def price(self, plan: Plan) -> Estimate:
        """Price a plan in full, once."""
        if (known := self._priced.get(plan)) is None:
            job, runtime, parts = self.scan.job, self.scan.runtime, self._parts.pop(plan, None)
            known = self._priced[plan] = priced(plan, job, runtime, self.memory_limit, parts)
        return known

    def peak(self, plan: Plan) -> float:
        """Return what a plan needs on its peak stage, without its full price. [byte]"""
        if (known := self._priced.get(plan)) is not None:
            return known.peak
        return peak_of(plan, self.scan.job, self.scan.runtime, self.parts)

    def parts(self, plan: Plan) -> PlanParts:
        """Take a plan apart, once until it is priced in full."""
        if plan not in self._parts:
            self._parts[plan] = parts_of(plan, self.scan.job, self.scan.runtime)
        return self._parts[plan]

    def safe(self, plan: Plan) -> Estimate | None:
        """Price a plan that fits within the accepted risk; None where it does not, or breaks a rule."""
        fits = self.peak(plan) <= self.scan.limit
        return known if fits and self.is_safe(known := self.price(plan)) else None

    def is_safe(self, known: Estimate) -> bool:
        """Whether a priced plan obeys all rules and fits within the accepted risk."""
        return known.feasible and known.peak <= self.scan.limit

    def is_offered(self, known: Estimate) -> bool:
        """Whether a priced plan is safe, and in time."""
        return self.is_safe(known) and known.step <= self.scan.within

    def best(self, plan: Plan) -> Estimate | None:
        """Return the fastest safe plan with these degrees, of all splits and recompute choices tried."""
        self.assigned.add(replace(plan, recompute=KEPT_WHOLE))
        plan = replace(plan, stage_layers=self.scan.split)
        case = case_of(plan, self.scan.job, self.scan.runtime)
        if self.scan.split is None and is_assignable(plan, case):
            return self.fastest(self._splits(plan))
        return min(self._thriftiest(plan), key=lambda known: known.step, default=None)

    def fastest(self, plans: Iterable[Plan], best: Estimate | None = None) -> Estimate | None:
        """Return the first fastest of plans that are safe, or the best so far where none is faster.

        Plans that take no less are not priced in full.
        """
        for plan in plans:
            if best is None or plan in self._priced or least_seconds(self.parts(plan)) < best.step:
                known = self.safe(plan)
                best = known if known is not None and (best is None or known.step < best.step) else best
        return best

    def floor(self, plan: Plan) -> float:
        """Seconds that a plan takes at least, however it is played, without its full price. [s]"""
        if (known := self._priced.get(plan)) is not None:
            return known.floor
        parts = self.parts(plan)
        return floor_seconds(parts, parts.step)

    def split_bound(self, plan: Plan) -> float:
        """Seconds of the passes of a plan at least, with any split that fits; infinite where none is. [s]"""
        if plan not in self._bounds:
            costs, columns = self._blocks(plan)
            slowest = float("inf") if columns is None else bottleneck(columns) / (1.0 + TIE) - costs.hop
            self._bounds[plan] = float(plan.num_microbatches) * slowest
        return self._bounds[plan]

    def with_split(self, plan: Plan) -> Estimate | None:
        """Return a plan with the best split for what it recomputes; None where none is safe."""
        costs, columns = self._blocks(plan)
        if columns is None:
            return None
        partition = best_partition(columns, costs.problem.sum_weight, costs.problem.slowest_weight)
        return None if partition is None else self.safe(replace(plan, stage_layers=partition.sizes))

    def _blocks(self, plan: Plan) -> tuple[PlanCosts, Column | None]:
        """Return what layers cost, and the seconds of every block on every stage; None where no split fits.

        Those of the last plan that was asked for are remembered.
        """
        if plan not in self._last:
            scan = self.scan
            costs = plan_costs(plan, scan.job, scan.runtime, [plan.recompute], scan.limit)
            self._last.clear()
            self._last[plan] = costs, stage_columns(costs, 0, tie=TIE) if fits_somehow(costs) else None
        return self._last[plan]

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
        plan = replace(plan, recompute=KEPT_WHOLE)
        if (known := self._counted.get(plan)) is None:
            known = self._counted[plan] = self._count(plan)
        return known

    def _count(self, plan: Plan) -> list[int]:
        choices = self.scan.choices.recompute
        if not {"none", "full"} <= set(choices):
            return []
        most = -(-self.scan.job.model.num_layers // int(plan.pp))
        step = int(plan.vpp)
        numbers = list(range(step, most + 1, step))
        if not numbers:
            return []
        kept, counted = (
            {
                broken.rule
                for broken in violations(all_rules(one, case_of(one, self.scan.job, self.scan.runtime)))
            }
            for one in (plan, replace(plan, recompute=f"full:{numbers[0]}"))
        )
        return numbers if counted <= kept else []

    def _splits(self, plan: Plan) -> list[Plan]:
        """Return the plans with the fastest passes, each with its best split."""
        values: list[tuple[float, str, tuple[int, ...]]] = []

        def offer(name: str, columns: Column, problem: AssignProblem) -> None:
            below = values[-1][0] if len(values) == PRICED_IN_FULL else np.inf
            partition = best_partition(columns, problem.sum_weight, problem.slowest_weight, below)
            if partition is not None:
                values.append((partition.value, name, partition.sizes))
                values.sort()
                del values[PRICED_IN_FULL:]

        job, runtime, limit = self.scan.job, self.scan.runtime, self.scan.limit
        for name in (*self.scan.choices.recompute, *self._between(plan)):
            costs = plan_costs(plan, job, runtime, [name], limit)
            offer(name, stage_columns(costs, 0, tie=TIE), costs.problem)
        numbers = self.counted(plan)
        if numbers:
            costs = plan_costs(plan, job, runtime, ["full", "none"], limit)
            for number in numbers:
                if len(values) == PRICED_IN_FULL and counted_bound(costs.problem, number) > values[-1][0]:
                    break
                columns = stage_columns(costs, 0, plain=1, first=number, tie=TIE)
                offer(f"full:{number}", columns, costs.problem)
        return [replace(plan, recompute=name, stage_layers=sizes) for _, name, sizes in values]

    def _between(self, plan: Plan) -> list[str]:
        """Return the modules to recompute, one more each time, where memory is short and the choice open."""
        return module_names(self._freed(plan))

    def _freed(self, plan: Plan) -> list[Freed]:
        """Return what modules free, where memory is short and the choice open."""
        if not self._modules or self.safe(self._plain(plan)) is not None:
            return []
        return freed_by(plan, self.scan.job, self.scan.runtime, self._modules)

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

    def fewest_modules(self, plan: Plan) -> Estimate | None:
        """Return a plan with modules recomputed that make it safe; None where none do.

        It is the fastest of two: one module alone, or as few as must be of those that cost least.
        """
        freed = self._freed(plan)
        quickest = (one.module for one in sorted(freed, key=lambda one: one.seconds))
        alone = (self.safe(replace(plan, recompute=f"selective:{module}")) for module in quickest)
        together = self._last_safe([replace(plan, recompute=name) for name in reversed(module_names(freed))])
        first = next((known for known in alone if known is not None), None)
        found = [known for known in (first, together) if known is not None]
        return min(found, key=lambda known: known.step, default=None)

    def _last_safe(self, plans: Sequence[Plan]) -> Estimate | None:
        """Return the last plan that is safe; each needs more memory than the one before."""
        low, high = 0, len(plans)
        while low < high:
            middle = (low + high) // 2
            if self.peak(plans[middle]) <= self.scan.limit:
                low = middle + 1
            else:
                high = middle
        return self.safe(plans[low - 1]) if low else None

    def _plain(self, plan: Plan) -> Plan:
        """Return a plan as it is where nothing is recomputed, with the default split."""
        return replace(plan, recompute=KEPT_WHOLE, stage_layers=self.scan.split)


def counted_bound(problem: AssignProblem, first: int) -> float:
    """Seconds of all passes at least, where the ``first`` layers of a stage take the first of two strategies.

    Some stage holds no fewer layers than the mean; that grows with ``first``. [s]
    """
    own, plain = problem.seconds.T
    longer, least = max(0.0, float(np.min(own - plain))), float(np.min(plain))
    most = -(-problem.layers // problem.stages)
    slowest = float(np.min(problem.extra_seconds)) + most * least + min(first, most) * longer
    total = float(np.sum(problem.extra_seconds)) + problem.layers * least
    return problem.sum_weight * total + problem.slowest_weight * slowest


@dataclass(frozen=True)
class Improvement:
    """What assignment did for the best plan of a job."""

    uniform: float
    step: float
    """Seconds of the best plan before and after. [s]"""
    solution: Solution | None
    """The bound of its passes, every layer choosing freely; None where there is none."""
    passes: float
    """Seconds of its passes. [s]"""
    seconds: float
    """Time that assignment took. [s]"""

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
        "uniform_step_s": improvement.uniform if np.isfinite(improvement.uniform) else None,
        "gain": improvement.gain,
        "gain_is_within_error": None if error_band is None else improvement.gain <= error_band,
        "note": solution.note if solution is not None else "",
    }
