"""What Megatron-core does not run as it is set, by plan and job; one table for price, files and answers.

Read in Megatron-LM d98e8a64 (core 0.20) and Megatron-Bridge 067f987d.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.plan import Plan
from planner.rules import Mask
from planner.runtimes.idle import Idle, TrainingTask
from planner.runtimes.megatron_lm.choices import SIXTEEN_BIT_AT_REST
from planner.techniques.settings.shared_expert_overlap import with_shared_expert

NO_EXPERTS: Final = "the model has no experts"


def _dense(plan: Plan, job: TrainingTask) -> bool:
    return not job.model.expert_kinds


def _no_shared_expert(plan: Plan, job: TrainingTask) -> bool:
    return not with_shared_expert(job.model, job.workload)


def _alike(plan: Plan, job: TrainingTask) -> bool:
    return job.workload.seq_lens is None


def _in_no_mxfp8(plan: Plan, job: TrainingTask) -> bool:
    return job.workload.precision != "mxfp8"


def _in_sixteen_bits(plan: Plan, job: TrainingTask) -> bool:
    return job.workload.precision in SIXTEEN_BIT_AT_REST


def _steps_otherwise(plan: Plan, job: TrainingTask) -> bool:
    return (job.workload.precision, job.workload.optimizer) != ("bf16", "adamw")


def _whole_states(plan: Plan, job: TrainingTask) -> Mask:
    return plan.zero == 0


def _whole_sequences(plan: Plan, job: TrainingTask) -> bool:
    return not plan.sequence_parallel


def _sends_no_token(plan: Plan, job: TrainingTask) -> Mask:
    return np.less_equal(plan.ep * plan.etp, 1)


def _experts_whole(plan: Plan, job: TrainingTask) -> Mask:
    return np.less_equal(plan.ep, 1)


def _no_tensor_ranks(plan: Plan, job: TrainingTask) -> Mask:
    return plan.tp <= 1


def _over_pcie(plan: Plan, job: TrainingTask) -> bool:
    return plan.sequence_parallel and not job.hardware.pool.node.scaleup.between_devices


def _apart(plan: Plan, job: TrainingTask) -> Mask:
    return (plan.tp <= 1) | (plan.tp > job.hardware.pool.scaleup_domain)


IDLE: Final = (
    Idle("dispatcher", "all-to-all", _dense, NO_EXPERTS, moot=_sends_no_token),
    Idle("overlaps_experts", False, _dense, NO_EXPERTS, moot=_experts_whole),
    Idle("overlaps_shared_expert", False, _no_shared_expert, "no expert is shared", moot=_experts_whole),
    Idle("static_experts", False, _dense, NO_EXPERTS),
    Idle("graphed", "", _dense, NO_EXPERTS, only="router"),
    Idle("context_by_length", False, _alike, "all sequences are equally long"),
    Idle("low_bit_head", "", _in_no_mxfp8, "the precision is not mxfp8"),
    Idle(
        "low_bit_weights",
        "beside",
        _in_sixteen_bits,
        "weights of this precision rest in 16 bit",
    ),
    Idle(
        "precision_aware",
        False,
        _steps_otherwise,
        "only AdamW on bf16 weights is stepped in another way",
        moot=_whole_states,
    ),
    # training/arguments.py, validate_args: `--tp-comm-overlap` needs sequence parallelism.
    Idle(
        "tp_exposed",
        1.0,
        _whole_sequences,
        "messages of tensor parallelism overlap under sequence parallelism alone",
        moot=_no_tensor_ranks,
    ),
    Idle(
        "tp_exposed",
        1.0,
        _over_pcie,
        "messages of tensor parallelism overlap over links between devices alone, such as NVLink",
        moot=_apart,
    ),
)
"""Traits, what runs in their place, and why."""
