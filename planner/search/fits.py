"""Whether anything fits, told as soon as something does."""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case, case_of
from planner.cost.legal import pass_rules
from planner.cost.memory.stage_memory import stage_memory
from planner.cost.memory.weights import StageWeights
from planner.cost.stages import Stages
from planner.cost.step.step import device_bytes, mean_weights
from planner.dataclasses import MISSING, fields, replace
from planner.numeric import Column, Num
from planner.plan import Plan
from planner.rules import Rule
from planner.search.candidates import ScanReport
from planner.search.legality import LAYOUT_AXES, Choices, PassNames, StateNames, named, plan_rows, twin_states
from planner.search.priced import CHUNK_ROWS
from planner.search.scan import Scan
from planner.search.space import Space
from planner.search.tables import LayerGrid, Rows, StageTables, distinct, representatives
from planner.techniques.engines.family import PassBytes
from planner.techniques.schedules import SCHEDULES

TRIED_FIRST = 1024
"""Rows with the smallest states, which are tried before all others."""

NO_PASSES = PassBytes(**{field.name: 0.0 for field in fields(PassBytes) if field.default is MISSING})
"""Passes that need no memory."""


def fits_any(scan: Scan) -> bool:
    """Whether some legal plan of a scan fits.

    Rows whose states alone are too large for a device are left out before any rule is asked.
    """
    if is_refused(scan):
        return False
    parts: list[tuple[StateNames, Rows]] = []
    for one, least in least_state_bytes(scan).items():
        rows = np.flatnonzero(least <= scan.limit)
        parts.append((one, rows[np.argsort(least[rows], kind="stable")]))
    return any(_fits_among(scan, one, rows[:TRIED_FIRST]) for one, rows in parts) or any(
        _fits_among(scan, one, rows[TRIED_FIRST:]) for one, rows in parts
    )


def is_refused(scan: Scan) -> bool:
    """Whether a rule that looks at no degree, only at the job and at names, refuses every plan of a scan.

    One row is asked for all: a rule that looks at degrees answers with a column, any other with one word.
    """
    if not scan.space.size or scan.runtime.cannot_train(scan.job):
        return True
    row, states = plan_rows(scan.space.rows, np.zeros(1, dtype=np.intp)), scan.choices.states()

    def refused(passes: PassNames) -> bool:
        plan = named(row, passes, states[0], scan.shards)
        rules = pass_rules(plan, case_of(plan, scan.job, scan.runtime))
        rules += scan.runtime.pass_rules(plan, scan.job, scan.runtime)
        return any(map(_refuses_all, rules)) or all(own_refuses(passes, one) for one in states)

    def own_refuses(passes: PassNames, one: StateNames) -> bool:
        plan = named(row, passes, one, scan.shards)
        return any(map(_refuses_all, scan.runtime.own_rules(plan, scan.job, scan.runtime)))

    return all(map(refused, scan.choices.passes()))


def _refuses_all(rule: Rule) -> bool:
    """Whether a rule looked at no degree, and refuses."""
    return np.ndim(rule.holds) == 0 and not rule.holds


def _fits_among(scan: Scan, states: StateNames, rows: Rows) -> bool:
    """Whether some of these rows is a legal plan that fits, with these states."""
    if not rows.size:
        return False
    recompute = tuple(sorted(scan.choices.recompute, key=lambda name: name != "full"))
    choices = replace(scan.choices, recompute=recompute, zero=(states.zero,), offload=(states.offload,))
    space = Space(plan_rows(scan.space.rows, rows), cells=0)
    report = ScanReport()
    steps = replace(scan, space=space, choices=choices, keep=1, hostable=None).steps(
        lambda result: np.asarray(result.total_bytes), report
    )
    return any(report.best for _ in steps)


def least_state_bytes(scan: Scan) -> dict[StateNames, Column]:
    """Bytes that the peak rank of each row needs at least, whatever its passes; infinite for twins. [byte]

    Some rank holds at least the mean of the states, and every rank what the runtime takes. Rows that differ
    in their micro-batches alone have the same states.
    """
    states, lightest = scan.choices.states(), _lightest(scan.choices)
    names = replace(scan.choices.passes()[0], schedule=lightest)
    axes = LAYOUT_AXES if SCHEDULES[lightest].flushes else (*LAYOUT_AXES, "num_microbatches")
    layouts, which = representatives(
        distinct([np.atleast_1d(getattr(scan.space.rows, axis)) for axis in axes])[1]
    )
    rows, size = plan_rows(scan.space.rows, layouts), len(layouts)
    least = {one: np.full(size, np.inf) for one in states}
    tables, grid = StageTables(rows, scan.split), LayerGrid(rows, np.arange(size))
    for start in range(0, size, CHUNK_ROWS):
        chunk = np.arange(start, min(start + CHUNK_ROWS, size))
        degrees = plan_rows(rows, chunk)
        case = case_of(named(degrees, names, states[0], scan.shards), scan.job, scan.runtime)
        _, totals = tables.stages(case, chunk)
        present = {piece: count for piece, count in totals.items() if not _may_be_shared(case, piece[0])}
        mean = mean_weights(case, degrees, grid.costs(case, list(present), chunk), present)
        for one in states:
            plan = named(degrees, names, one, scan.shards)
            nbytes = _mean_state_bytes(case_of(plan, scan.job, scan.runtime), plan, mean)
            least[one][chunk] = np.where(twin_states(plan, one), np.inf, nbytes)
    return {one: nbytes[which] for one, nbytes in least.items()}


def _lightest(choices: Choices) -> str:
    """Return the schedule that holds the fewest copies of the weights."""
    return min(choices.schedule, key=lambda name: SCHEDULES[name].weight_copies)


def _may_be_shared(case: Case, piece: str) -> bool:
    """Whether a part may be held together with another one: a tied head, where the schedule allows it."""
    return case.model.tied_embeddings and piece in ("head", "tied_head")


def _mean_state_bytes(case: Case, plan: Plan, mean: StageWeights) -> Num:
    """Bytes of a rank that holds the mean of the weights, in as many versions as the last one. [byte]"""
    last = Stages({}, np.asarray(plan.pp) - 1.0)
    return device_bytes(case, stage_memory(case, plan, NO_PASSES, mean, last))
