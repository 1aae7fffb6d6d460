"""What Megatron-core asks of a plan whose pipelines lie inside its replicas."""

from __future__ import annotations

import numpy as np

from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Job


def order_rule(plan: Plan, job: Job) -> Rule:
    """Return the rule that experts have as many replicas as attention where pipelines lie inside.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``megatron/core/parallel_state.py``, ``initialize_model_parallel``: an order
       that does not end in pp wants both alike; a model without experts has groups of them all the same, as
       wide as tensor parallelism.
    """
    replicas = plan.expert_dp if job.model.expert_kinds else plan.cp * plan.dp
    return Rule(
        "stages-inside-keep-replicas",
        np.less_equal(plan.pp, 1) | np.equal(replicas, plan.dp),
        lambda: (
            f"stages inside with cp {plan.cp:g}, ep {plan.ep:g}, etp {plan.etp:g} and tp {plan.tp:g}",
            "ep x etp = tp x cp, and cp 1 without experts, or one pipeline rank",
            "--set rank_order=data-inside",
        ),
    )
