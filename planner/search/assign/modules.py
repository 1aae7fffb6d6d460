"""Recompute between nothing and everything: modules of a layer, those first that free most for their time."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.case import case_of
from planner.cost.step.layout import piece_costs, priced_layers
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.rules import violations
from planner.runtimes.family import Job, Runtime
from planner.techniques.recompute.family import MODULES


def known_modules(job: Job, runtime: Runtime) -> tuple[str, ...]:
    """Return the modules that a runtime can recompute by themselves for a job."""

    def refused(module: str) -> bool:
        rules = runtime.rules(Plan(recompute=f"selective:{module}"), job)
        return any("recompute" in broken.rule for broken in violations(rules))

    return tuple(module for module in MODULES if not refused(module))


@dataclass(frozen=True)
class Freed:
    """What recompute of a module alone frees in all layers of a micro-batch, and what it takes."""

    module: str
    """Its name."""
    seconds: float
    """Time of running it again. [s]"""
    nbytes: float
    """What is no longer kept. [byte]"""


def freed_by(plan: Plan, job: Job, runtime: Runtime, modules: Sequence[str]) -> list[Freed]:
    """Return what each module frees, those first that take the least time for each byte.

    Modules that free nothing are left out.

    ``plan``, ``job`` and ``runtime``: a scalar plan, whatever it recomputes; ``modules``: modules that the
    runtime can recompute.
    """
    kinds = list(dict.fromkeys(job.model.layers))
    layers = priced_layers(
        case_of(replace(plan, recompute="none"), job, runtime), plan, [(kind, True) for kind in kinds]
    )

    def cost(name: str) -> tuple[float, float]:
        case = case_of(replace(plan, recompute=name), job, runtime)
        table = piece_costs(case, plan, layers, [(kind, True) for kind in kinds])
        counts = {kind: job.model.layers.count(kind) for kind in kinds}
        seconds = sum(counts[kind] * float(table[kind, True].seconds) for kind in kinds)
        return seconds, sum(counts[kind] * float(table[kind, True].held) for kind in kinds)

    seconds, held = cost("none")
    found = []
    for module in modules:
        longer, kept = cost(f"selective:{module}")
        if kept < held:
            found.append(Freed(module, longer - seconds, held - kept))
    return sorted(found, key=lambda one: (one.seconds / one.nbytes, one.module))


def module_names(freed: Sequence[Freed]) -> list[str]:
    """Return recompute choices of one module after another, each a part of the next."""
    order = [one.module for one in freed]
    return ["selective:" + "+".join(sorted(order[: size + 1])) for size in range(len(order))]
