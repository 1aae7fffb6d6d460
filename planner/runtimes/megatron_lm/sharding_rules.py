"""Rules of Megatron-core on what data parallelism shards, on the optimizer and on its dtypes."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.megatron_lm.offload import optimizer_share
from planner.runtimes.offered import dtype_rules

OPTIMIZERS: Final = {"adamw": "adam", "sgd": "sgd", "muon": "muon"}
"""Optimizers that it takes, by its own names."""
STATE_DTYPES: Final = ("fp32", "bf16", "fp16", "fp8")
MASTER_DTYPES: Final = ("fp32", "fp16")


def sharding_rules(plan: Plan, workload: Workload) -> list[Rule]:
    """Return the rules on ZeRO stage, shards, optimizer, where it lives, and its dtypes."""
    gradients = ("fp32", "fp16") if workload.precision == "fp16" else ("fp32", "bf16")
    dtypes = {"state_dtype": STATE_DTYPES, "master_dtype": MASTER_DTYPES, "gradient_dtype": gradients}
    return [
        *dtype_rules(workload, dtypes),
        _shards_rule(plan),
        *_distributed_optimizer_rules(plan, workload),
    ]


def precision_aware(plan: Plan, workload: Workload) -> bool:
    """Whether the plan needs Megatron-core's precision-aware optimizer."""
    return workload.reduces_states or optimizer_share(plan.offload) > 0


def _shards_rule(plan: Plan) -> Rule:
    group = plan.dp * plan.cp
    copies = group / plan.zero_shards
    whole = (plan.zero == 0) | np.equal(copies, 1)
    return Rule(
        "zero-shards-divide",
        whole | (divides(plan.zero_shards, group) & divides(copies, plan.expert_dp)),
        lambda: (
            f"zero shards {plan.zero_shards:g}",
            f"dp · cp = {group:g}, or a part of it of which experts too hold whole copies",
            f"zero shards {group:g}",
        ),
    )


def _distributed_optimizer_rules(plan: Plan, workload: Workload) -> list[Rule]:
    careful, adam = precision_aware(plan, workload), workload.optimizer == "adamw"
    return [
        Rule(
            "states-need-distributed-optimizer",
            not careful or plan.zero >= 1,
            lambda: (
                "reduced or offloaded optimizer states with zero 0",
                "zero 1 or more, since the precision-aware optimizer is a distributed one",
                "zero 1",
            ),
        ),
        Rule(
            "states-need-adam",
            not careful or adam,
            lambda: (f"reduced or offloaded states of {workload.optimizer}", "adamw", "adamw"),
        ),
        Rule(
            "offload-needs-distributed-optimizer",
            not optimizer_share(plan.offload) or plan.zero <= 1,
            lambda: (f"offloaded optimizer with zero {plan.zero} (Megatron-FSDP)", "zero 1", "zero 1"),
        ),
        Rule(
            "fsdp-optimizer",
            plan.zero <= 1 or workload.optimizer in ("adamw", "sgd"),
            lambda: (f"{workload.optimizer} with zero {plan.zero} (Megatron-FSDP)", "adamw or sgd", "zero 1"),
        ),
        Rule(
            "muon-shards-whole",
            workload.optimizer != "muon" or np.equal(plan.zero_shards, plan.dp * plan.cp) | (plan.zero == 0),
            lambda: (f"muon with zero shards {plan.zero_shards:g}", "dp · cp", f"{plan.dp * plan.cp:g}"),
        ),
    ]
