"""The default split of the layers, the one that makes the slowest stage fastest, and those with bare ends."""

from __future__ import annotations

from collections.abc import Iterator

from planner.cost.case import case_of
from planner.cost.estimate import Estimate
from planner.cost.splits import weighted_split
from planner.cost.stages import ENCODER, ENDS
from planner.cost.step.layout import layer_weights, piece_costs, priced_layers
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened
from planner.search.chunk import PricedRows
from planner.search.operators.family import SearchOperator
from planner.search.scope import Scope


@dataclass(frozen=True)
class Split(SearchOperator):
    """Takes every safe plan, those of least bound first."""

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the safe rows."""
        return Screened(rows.values, rows.bounds, rows.safe)

    def bound(self, bench: Improver, candidate: Candidate) -> float:
        """Seconds that a candidate takes at least under these splits, however it is played. [s]"""
        return least_of(candidate, bench)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the best of the splits."""
        yield best_of(candidate, bench)


def balanced(plan: Plan, scan: Scope) -> Plan | None:
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
    ends += [(ENCODER, False)] if model.encoder else []
    costs = piece_costs(case, plan, priced_layers(case, plan, [*pieces, *ends]), [*pieces, *ends])
    seconds = {name: float(cost.seconds) for (name, _), cost in costs.items()}
    last = seconds["head"]
    if model.prediction is not None:
        extra = seconds["prediction"] + seconds[model.prediction.block] + seconds["head"]
        last += model.prediction.layers * extra
    weights = tuple(seconds[name] for name in model.layers if name not in ENDS)
    split = weighted_split(
        weights, int(plan.pp * plan.vpp), last, first=seconds["embedding"] + seconds.get(ENCODER, 0.0)
    )
    return replace(plan, stage_layers=split)


def apart(plan: Plan, scan: Scope) -> Plan | None:
    """Return the plan with prediction layers and loss on stages of their own; None where that cannot be."""
    split = _before_bare(plan, scan, 2)
    return None if split is None else replace(plan, stage_layers=(*split, 0, 0))


def beside(plan: Plan, scan: Scope) -> Plan | None:
    """Return the plan with prediction layers beside the last decoder layers, and the loss alone."""
    split = _before_bare(plan, scan, 1)
    return None if split is None else replace(plan, stage_layers=(*split, 0), prediction_apart=True)


def _before_bare(plan: Plan, scan: Scope, bare: int) -> tuple[int, ...] | None:
    """Return the layers of all but the ``bare`` last stages of a model with prediction layers."""
    model, parts = scan.job.model, int(plan.pp * plan.vpp) - bare
    if model.prediction is None or not scan.runtime.bare_ends or scan.split is not None:
        return None
    if plan.pp == 1 or not 1 < parts <= model.num_layers:
        return None
    work = scan.job.workload
    weights = layer_weights(model, work.seq_len, work.attended_tokens)
    extra = weights[model.prediction.block] + 4.0 * model.hidden * model.hidden
    last = model.prediction.layers * extra if bare == 1 else 0.0
    return weighted_split(tuple(weights[name] for name in model.layers), parts, last)


def other_splits(plan: Plan, scan: Scope) -> Iterator[Plan]:
    """Yield the plan with each split but the default one."""
    yield from (other for make in (balanced, apart, beside) if (other := make(plan, scan)) is not None)


def best_of(candidate: Candidate, bench: Improver) -> Estimate:
    """Return the best of a candidate's default split, its balanced one, and one with bare ends."""
    first = bench.price(replace(candidate.plan, stage_layers=bench.scan.split))
    others = (other for other in other_splits(candidate.plan, bench.scan) if _cut(other) != _cut(first.plan))
    return bench.fastest(others, first) or first


def _cut(plan: Plan) -> tuple[object, ...]:
    return plan.stage_layers, plan.prediction_apart


def least_of(candidate: Candidate, bench: Improver) -> float:
    """Seconds that a candidate takes at least under the splits that are tried, however played. [s]

    Playing a step takes a hundred times as long.
    """
    default = replace(candidate.plan, stage_layers=bench.scan.split)
    return min(map(bench.floor, (default, *other_splits(candidate.plan, bench.scan))))


ENTRY = Split("split", turn=1, cost=1, proves=True, leads=True, beats=False)
