"""Plans that may keep activations of some layers on the host, and what they then take at least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from planner.cost.case import Case, case_of
from planner.cost.memory.activation_offload import LayerPasses
from planner.cost.memory.host_rules import HAS_LINK, offload_rules
from planner.cost.memory.reserve import needed_share
from planner.cost.memory.weights import StageWeights
from planner.cost.step.step import PassPrice, StepPrice
from planner.cost.traffic.host_copies import exposed_copies_seconds
from planner.dataclasses import replace
from planner.numeric import Column
from planner.plan import Plan
from planner.runtimes.family import Job, Runtime
from planner.search.legality import Choices
from planner.search.scope import KEPT_WHOLE
from planner.search.space import Space
from planner.search.tables import Rows
from planner.techniques.offload import HOSTED


def hostable_rows(space: Space, job: Job, runtime: Runtime, choices: Choices) -> NDArray[np.bool_] | None:
    """Return which rows of a space may have activations on the host; None where no row may.

    What is recomputed beside it is nothing: where the user wants some, none may.
    """
    most = job.model.num_layers - 1
    if KEPT_WHOLE not in choices.recompute or most < 1 or not space.size:
        return None
    one = HOSTED.of(1).spelled
    alone = Plan(dp=float(job.gpus), recompute=KEPT_WHOLE, offload=one)
    link = [rule for rule in offload_rules(alone, case_of(alone, job, runtime)) if rule.name == HAS_LINK]
    held = np.full(space.size, all(rule.holds for rule in link))
    for rule in runtime.rules(replace(space.rows, recompute=KEPT_WHOLE, offload=one), job):
        if "offload" in rule.name:
            held &= np.asarray(rule.holds)
    return held if held.any() else None


def least_hosted_seconds(
    case: Case, plan: Plan, passes: PassPrice, result: StepPrice, rows: Rows, limit: float
) -> Column:
    r"""Seconds that a step takes at least with as many layers on the host as memory wants. [s]

    .. math:: n \ge \frac{M_0 - M}{(1 + r)\,S / L}

    Parameters
    ----------
    case : Case
        The job and its techniques, with nothing or one layer on the host.
    plan : Plan
        The rows asked for, each of one stage.
    passes, result : PassPrice, StepPrice
        A batch of such plans, priced.
    rows : array
        Places of the rows in it.
    limit : float
        Bytes that a rank may be predicted to use. [byte]

    Returns
    -------
    array
        Of each row; infinite where all layers but the one that runs free too little.

    Notes
    -----
    A byte that leaves frees itself and the allocator's reserve beside it, and no more. Calls for memory that
    are tried again are left out of what a step takes, since they depend on what is there.
    """
    layers, held = _stage_of(passes, result, rows)
    missing = np.asarray(result.total_bytes)[rows] - limit
    wanted = case.offload.layers + missing / np.maximum(_freed_bytes(case, layers), 1.0)
    seconds = _seconds_with(wanted, case, plan, (layers, held), result, rows)
    return np.where(wanted <= layers.count - 1.0, seconds, np.inf)


def least_hosted_bytes(
    case: Case, plan: Plan, passes: PassPrice, result: StepPrice, rows: Rows, within: float
) -> Column:
    """Bytes that a rank needs at least with as many layers on the host as a step has time for. [byte]

    Parameters
    ----------
    case, plan, passes, result, rows
        As in `least_hosted_seconds`.
    within : float
        Seconds that a step may take. [s]

    Returns
    -------
    array
        Of each row; infinite where not even the fewest layers are in time.
    """
    layers, held = _stage_of(passes, result, rows)
    fewest = np.full(rows.size, max(1.0, float(case.offload.layers)))
    low, high = fewest - 1.0, np.maximum(layers.count - 1.0, fewest - 1.0)
    while np.any(low < high):
        middle = np.ceil((low + high) / 2.0)
        in_time = _seconds_with(middle, case, plan, (layers, held), result, rows) <= within
        low, high = np.where(in_time, middle, low), np.where(in_time, high, middle - 1.0)
    gone = _freed_bytes(case, layers) * (low - case.offload.layers)
    return np.where(low >= fewest, np.asarray(result.total_bytes)[rows] - gone, np.inf)


FirstStage = tuple[LayerPasses, StageWeights]


def _stage_of(passes: PassPrice, result: StepPrice, rows: Rows) -> FirstStage:
    """Return the layers of the first stage of some rows, and its weights."""
    size = np.asarray(result.total_bytes).size
    layers = LayerPasses(*(_of_first_stage(one, rows, size) for one in vars(passes.layers).values()))
    return layers, passes.weights.mapped(lambda column: _of_first_stage(column, rows, size))


def _freed_bytes(case: Case, layers: LayerPasses) -> Column:
    """Bytes that a layer on the host frees at most. [byte]"""
    return np.asarray((1.0 + needed_share(case)) * layers.saved / layers.count)


def _seconds_with(
    hosted: Column, case: Case, plan: Plan, stage: FirstStage, result: StepPrice, rows: Rows
) -> Column:
    """Seconds that a step takes at least with so many layers on the host. [s]

    Where the device waits for its host, copies take of that time first.
    """
    beside = replace(case, offload=HOSTED.of(hosted))
    exposed = np.asarray(exposed_copies_seconds(beside, plan, *stage))
    whole = np.asarray(result.step)[rows]
    waits = _of_first_stage(result.host, rows, np.asarray(result.total_bytes).size)
    device = whole - waits - np.asarray(exposed_copies_seconds(case, plan, *stage))
    floor = np.where(waits > 0.0, whole, 0.0)
    if case.retry_seconds:
        bound = np.asarray(result.bound)[rows]
        device = np.where(bound > floor, bound, 0.0)
    seconds: Column = np.maximum(device + exposed, floor)
    return seconds


def _of_first_stage(column: object, rows: Rows, size: int) -> Column:
    """Return rows of the first stage, whatever was not spelled out for every stage and row."""
    table = np.asarray(column, dtype=float)
    first = table[0] if table.ndim > 1 else table
    return np.broadcast_to(first, (size,))[rows]
