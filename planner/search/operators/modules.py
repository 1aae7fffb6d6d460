"""Inputs of modules on the host: the fewest modules with which a plan fits that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from planner.cost.estimate import Estimate
from planner.dataclasses import dataclass, replace
from planner.plan import Plan
from planner.search.assign.improve import Improver
from planner.search.candidates import Candidate, Screened, by_value
from planner.search.chunk import PricedRows
from planner.search.operators.family import SearchOperator
from planner.search.scope import Scope
from planner.techniques.offload import OFFLOADS

TRIED: Final = (
    ("core_attn", "attn_proj"),
    ("expert_fc1",),
    ("core_attn", "attn_proj", "expert_fc1"),
    ("core_attn", "attn_proj", "expert_fc1", "moe_act"),
)
"""Modules that go together, those first that free least.

References
----------
.. [1] NVIDIA, Megatron-Bridge 067f987d, ``src/megatron/bridge/perf_recipes/deepseek``: the first two.
.. [2] NVIDIA, Megatron-LM d98e8a64, ``docs/user-guide/features/fine_grained_activation_offloading.md``: all.
"""

FREED: Final = 1.3
"""Times its limit that a plan may need, to be tried. [-]"""


def _spelled(names: tuple[str, ...]) -> str:
    return replace(OFFLOADS["modules"], modules=names).spelled


@dataclass(frozen=True)
class HostedModules(SearchOperator):
    """Takes plans that do not fit, of any number of stages, which recompute no whole layer."""

    def takes(self, scope: Scope) -> bool:
        """Whether the user leaves the offload open, and runtime and machine can."""
        runtime = scope.runtime
        written = not runtime.release or runtime.release in runtime.versions
        if scope.by_memory or len(scope.choices.offload) < 2 or not written:
            return False
        alone = Plan(dp=float(scope.job.gpus), offload=_spelled(TRIED[0]))
        rules = runtime.rules(alone, scope.job)
        known = scope.job.hardware.pool.accelerator.host_link is not None
        return known and all(rule.holds for rule in rules if "offload" in rule.name)

    def screen(self, rows: PricedRows) -> Screened | None:
        """Return the rows that need too much memory, though not by far, by what they take without."""
        (passes, states), whole = rows.names, rows.scope.choices.offload[0]
        if passes.recompute.startswith("full") or states.domain or states.offload != whole:
            return None
        return rows.short_of_memory(FREED)

    def refine(self, bench: Improver, candidate: Candidate) -> Iterator[Estimate]:
        """Yield the plan with the first modules that make it safe."""
        routed = bool(bench.scan.job.model.expert_kinds)
        for names in TRIED if routed else TRIED[:1]:
            plan = replace(candidate.plan, offload=_spelled(names), stage_layers=bench.scan.split)
            if (known := bench.safe(plan)) is not None:
                yield known
                return


ENTRY = HostedModules("modules", turn=6.5, cost=32, order=by_value)
