"""Traits that switch one more part of Megatron-core on, and the plans that it refuses with them.

Read in Megatron-LM d98e8a64 (core 0.20): training/arguments.py `validate_args`; transformer_config.py and
model_parallel_config.py, whose fields are flags of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.errors import UnsupportedPlan
from planner.plan import Plan
from planner.runtimes._family import Job
from planner.runtimes._settings import Changes, Settings, Value
from planner.runtimes.megatron_lm.recompute import granularity

SIXTEEN_BIT_AT_REST: Final = ("bf16", "fp16", "fp8-block")
"""Precisions that are priced with a 16-bit weight at rest whatever is asked."""

CORE_CHOICES: Final[Settings] = {
    "launch_blocking": (True,),
    "low_bit_head": ("mxfp8",),
    "low_bit_weights": ("alone",),
    "operator_fuser": (True,),
    "overlaps_experts": (True,),
    "static_experts": (True,),
}
"""Values that Megatron-core has a switch for, whoever starts it."""


@dataclass(frozen=True)
class Switch:
    """One switch: a flag of ``pretrain_gpt.py`` with its words, and the release that has it first."""

    flags: tuple[str, ...]
    since: str = "0.16"


SWITCHES: Final = {
    "low_bit_head": Switch(("--fp8-output-proj",), "0.18"),
    "low_bit_weights": Switch(("--fp8-param-gather",)),
    "operator_fuser": Switch(("--use-transformer-engine-op-fuser",), "0.18"),
    "overlaps_experts": Switch(("--overlap-moe-expert-parallel-comm",)),
    "static_experts": Switch(("--moe-expert-capacity-factor", "1.0", "--moe-pad-expert-input-to-capacity")),
    "tp_exposed": Switch(("--tp-comm-overlap",)),
}
"""Trait to what starts it; releases are all 0.NN."""


def in_effect(plan: Plan, job: Job, changes: Changes) -> Changes:
    """Return the changed traits that this plan runs: no expert's switch without experts, and the like."""
    experts, work = bool(job.model.expert_kinds), job.workload
    idle = {
        "dispatcher": plan.ep * plan.etp <= 1,
        "overlaps_experts": not experts or plan.ep <= 1,
        "static_experts": not experts,
        "low_bit_head": work.precision != "mxfp8",
        "low_bit_weights": work.precision in SIXTEEN_BIT_AT_REST,
        "tp_exposed": plan.tp <= 1 or not plan.sequence_parallel,
    }
    return {name: value for name, value in changes.items() if not idle.get(name, False)}


def check(plan: Plan, job: Job, changes: Changes) -> None:
    """Refuse changed traits that Megatron-core does not run with a plan.

    Raises
    ------
    UnsupportedPlan
        With every reason.
    """
    asked = in_effect(plan, job, changes)
    reasons = [
        *(_weights_alone(plan, job) if asked.get("low_bit_weights") == "alone" else ()),
        *(_beside_experts(plan, job) if asked.get("overlaps_experts") else ()),
        *(_of_one_size(asked) if asked.get("static_experts") else ()),
    ]
    if reasons:
        raise UnsupportedPlan("; ".join(reasons))


def _weights_alone(plan: Plan, job: Job) -> Iterator[str]:
    precision, work = job.workload.precision, job.workload
    nearest = "--set low_bit_weights=beside"
    if precision not in ("fp8", "fp8-delayed"):
        yield f"weights alone in {precision}; nearest: --precision fp8, or {nearest}"
    elif plan.zero == 0 and work.method == "full":
        yield f"weights alone in {precision} with zero 0, no distributed optimizer; nearest: zero 1"
    elif plan.offload == "optimizer" and precision == "fp8":
        yield f"weights alone in fp8 with offload optimizer; nearest: --precision fp8-delayed, or {nearest}"


def _beside_experts(plan: Plan, job: Job) -> Iterator[str]:
    what, wanted = "overlaps_experts true", granularity(plan.recompute)
    if plan.pp > 1 and plan.vpp <= 1:
        yield f"{what} with pp {plan.pp:g}, vpp 1; nearest: schedule interleaved-1f1b, or pp 1"
    if wanted is not None and (wanted.whole or "moe" in wanted.modules):
        yield f"{what} with recompute {plan.recompute}; nearest: recompute selective"
    if job.model.prediction is not None and job.model.prediction.layers > 1:
        yield f"{what} with {job.model.prediction.layers} prediction layers; nearest: 1"


def _of_one_size(asked: Changes) -> Iterator[str]:
    if asked.get("dispatcher") == "fused":
        yield "static_experts true with dispatcher fused; nearest: --set dispatcher=all-to-all"


def choice_flags(changes: Changes, version: str) -> list[str]:
    """Return the flags of the switches that changed traits ask for.

    Raises
    ------
    UnsupportedPlan
        If a release has no such flag.
    """
    wanted = {name: SWITCHES[name] for name in SWITCHES if name in changes}
    for name, switch in wanted.items():
        if version < switch.since:
            raise UnsupportedPlan(
                f"{name} {_word(changes[name])} with release {version}, which has no {switch.flags[0]}; "
                f"nearest: release {switch.since}"
            )
    return [flag for switch in wanted.values() for flag in switch.flags]


def choice_variables(changes: Changes) -> dict[str, str]:
    """Return the variables that changed traits ask for."""
    return {"CUDA_LAUNCH_BLOCKING": "1"} if changes.get("launch_blocking") else {}


def _word(value: Value) -> str:
    return str(value).lower()
