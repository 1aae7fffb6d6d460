"""What cannot be set beside a plan on DeepSpeed."""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.deepspeed.checkpoints import checkpoint_rules
from planner.runtimes.deepspeed.tiles import tile_rules
from planner.runtimes.deepspeed.zeropp import zeropp_rules
from planner.runtimes.family import Job, Runtime
from planner.runtimes.idle import Idle, TrainingTask


def _without_zero(plan: Plan, job: TrainingTask) -> bool:
    return plan.zero == 0


IDLE: Final = (Idle("bucket_elements", 5e8, _without_zero, "without ZeRO nothing is reduced in its buckets"),)
"""What a plan does not run as it is set."""


def setting_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is set; of a release whose files are not written those alone that any has.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``,
       ``register_with_transformers``: flash attention or SDPA.
    .. [2] ``deepspeed/runtime/engine.py``, ``_configure_optimizer``: but under ZeRO gradients have the dtype
       of the model.
    """
    makers = (tile_rules, checkpoint_rules, zeropp_rules)
    own = [rule for maker in makers for rule in maker(plan, job, runtime)]
    if runtime.release and runtime.release not in runtime.versions:
        return own
    kernel, kept = runtime.traits.attention.kernel, runtime.traits.optimizer.gradient_dtype
    precision = job.workload.precision
    return [
        *own,
        Rule(
            "ulysses-fuses-attention",
            np.equal(plan.cp, 1) | (kernel != "unfused"),
            lambda: (
                f"unfused attention with cp {plan.cp:g}",
                "fused attention, the only one that Ulysses runs",
                "--set attention=flash-2",
            ),
        ),
        Rule(
            "overlap-is-set-under-zero",
            plan.zero >= 1 or runtime.traits.data.exposed < 1.0,
            lambda: (
                f"dp_exposed 1 with zero {plan.zero}",
                "zero 1 or more, whose overlap_comm says it",
                "zero 1",
            ),
        ),
        Rule(
            "overlap-has-two-buckets",
            (runtime.traits.data.exposed < 1.0) == (runtime.traits.engine.flat_buckets > 1.0),
            lambda: (
                f"dp_exposed {runtime.traits.data.exposed:g} with flat_buckets "
                f"{runtime.traits.engine.flat_buckets:g}",
                "two buckets where communication overlaps, else one",
                "--set overlap_comm=false",
            ),
        ),
        Rule(
            "own-gradients-need-zero",
            plan.zero >= 1 or kept in ("bf16", precision),
            lambda: (
                f"gradients in {kept} with zero {plan.zero}",
                f"those of {precision}: only ZeRO keeps others",
                "zero 1",
            ),
        ),
    ]
