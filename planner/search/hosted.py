"""Activations on the host: as few layers as memory wants, or as many as time allows."""

from __future__ import annotations

from dataclasses import replace

from planner.cost.estimate import Estimate
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate
from planner.techniques.offload import HOSTED, OFFLOADS
from planner.techniques.offload._family import read_offload


def fewest_hosted(improver: Improver, candidate: Candidate) -> Estimate | None:
    """Return a plan with the activations of as few layers on the host as make it safe; None where none does.

    Each layer on the host frees memory of the device and takes time. The host's own memory is a rule: where
    it cannot hold what it must, no plan is.
    """
    plan = replace(candidate.plan, stage_layers=improver.scan.split)
    low, high, best = 1, improver.scan.job.model.num_layers - 1, None
    while low <= high:
        middle = (low + high) // 2
        known = improver.price(replace(plan, offload=HOSTED.of(middle).spelled))
        if known.peak <= improver.scan.limit:
            best, high = known, middle - 1
        else:
            low = middle + 1
    return best if best is not None and improver.is_safe(best) else None


def has_more_hosted(known: Estimate, found: Estimate) -> bool:
    """Whether a plan is another one but for more layers whose activations are on the host."""
    same = replace(found.plan, offload=known.plan.offload, stage_layers=known.plan.stage_layers)
    return known.plan == same and activation_layers(known) > activation_layers(found)


def activation_layers(known: Estimate) -> float:
    """Return the layers of each stage whose activations are on the host; 0 where that is something else."""
    return float(read_offload(OFFLOADS, known.plan.offload).layers)


def most_hosted(improver: Improver, candidate: Candidate, within: float) -> Estimate | None:
    """Return a plan with the activations of as many layers on the host as are in time; None where none is.

    Each layer on the host frees memory of the device, takes time, and needs the host's own memory.

    Parameters
    ----------
    improver : Improver
        Prices plans.
    candidate : Candidate
        A plan that may have activations on the host.
    within : float
        Seconds that a step may take. [s]
    """
    plan = replace(candidate.plan, stage_layers=improver.scan.split)
    low, high, best = 1, improver.scan.job.model.num_layers - 1, None
    while low <= high:
        middle = (low + high) // 2
        known = improver.price(replace(plan, offload=HOSTED.of(middle).spelled))
        if known.step <= within and not known.violations:
            best, low = known, middle + 1
        else:
            high = middle - 1
    return best if best is not None and improver.is_safe(best) else None
