"""Recompute as Megatron-core names it."""

from __future__ import annotations

import math
from typing import Final

from planner.dataclasses import dataclass
from planner.inputs.model import LatentAttention
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.megatron_lm.architecture import Architecture
from planner.units import is_whole

MODULES: Final = {
    "norm": "layernorm",
    "core_attn": "core_attn",
    "mlp": "mlp",
    "moe": "moe",
    "moe_act": "moe_act",
    "shared_experts": "shared_experts",
    "mla_up_proj": "mla_up_proj",
}
"""The planner's name of a module to Megatron-core's."""


@dataclass(frozen=True)
class Granularity:
    """What of a layer is rebuilt: all of it, or some modules; ``layers`` is how many of a stage, None all."""

    whole: bool
    modules: tuple[str, ...] = ()
    layers: int | None = None


def granularity(recompute: str) -> Granularity | None:
    """Return what the plan's ``recompute`` asks for; None where it asks for nothing."""
    name, _, argument = recompute.partition(":")
    if name in ("full", "every-layer"):
        return Granularity(True, layers=int(argument) if argument else None)
    if name == "selective":
        return Granularity(False, tuple(argument.split("+")) if argument else ("core_attn",))
    return None


def recompute_rules(plan: Plan, workload: Workload, arch: Architecture) -> list[Rule]:
    """Return the rules on recompute."""
    name, _, argument = plan.recompute.partition(":")
    counted = name in ("full", "every-layer") and (not argument or (is_whole(argument) and int(argument) > 0))
    known = counted or name == "selective" or plan.recompute == "none"
    rules = [
        Rule(
            "recompute-offered",
            known,
            lambda: (
                f"recompute {plan.recompute}",
                "none, selective, selective:MODULE+MODULE, full or full:N",
                "full",
            ),
        )
    ]
    if not known:
        return rules
    wanted = granularity(plan.recompute)
    if wanted is not None and wanted.layers is not None:
        layers = wanted.layers
        rules.append(
            Rule(
                "recompute-layers-in-chunks",
                divides(plan.vpp, layers),
                lambda: (
                    f"recompute {plan.recompute} over {plan.vpp:g} chunks",
                    "as many layers in each chunk of a stage",
                    f"full:{math.ceil(layers / float(plan.vpp)) * float(plan.vpp):g}",
                ),
            )
        )
    return rules + [_module_rule(module, workload, arch) for module in (wanted.modules if wanted else ())]


def _module_rule(module: str, workload: Workload, arch: Architecture) -> Rule:
    missing = {
        "mlp": arch.dense is None and "the model has no dense feed-forward layers",
        "moe": arch.experts is None and "the model has no experts",
        "moe_act": arch.experts is None and "the model has no experts",
        "shared_experts": (arch.experts is None or not arch.experts.shared_inner)
        and "the model has no shared experts",
        "mla_up_proj": not isinstance(arch.mixer, LatentAttention) and "the model has no latent attention",
    }
    reason = missing.get(module) or ""
    if module not in MODULES:
        reason = "Megatron-core has no such module"
    elif workload.precision == "fp8-delayed" and module in ("moe_act", "norm"):
        reason = "delayed scaling forbids it"
    return Rule(
        "recompute-module",
        not reason,
        lambda: (
            f"recompute module {module}",
            f"modules out of {', '.join(MODULES)}: {reason}",
            "recompute full",
        ),
    )
