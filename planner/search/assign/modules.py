"""Recompute between nothing and everything: modules of a layer, those first that free most for their time."""

from __future__ import annotations

from collections.abc import Sequence

from planner.cost.case import case_of
from planner.cost.step.layout import piece_costs, priced_layers
from planner.dataclasses import replace
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


def module_names(plan: Plan, job: Job, runtime: Runtime, modules: Sequence[str]) -> list[str]:
    """Return recompute choices of one module after another, each a part of the next.

    Modules that free nothing are left out; the first are those that take the least time for each byte.

    Parameters
    ----------
    plan, job, runtime : Plan, Job, Runtime
        A scalar plan, whatever it recomputes.
    modules : sequence of str
        Modules that the runtime can recompute.
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
            found.append(((longer - seconds) / (held - kept), module))
    order = [module for _, module in sorted(found)]
    return ["selective:" + "+".join(sorted(order[: size + 1])) for size in range(len(order))]
