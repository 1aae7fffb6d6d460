"""LoRA as Megatron-Bridge has it: which layers carry adapters, and what a plan must keep for them.

Read in Megatron-Bridge 067f987d: peft/lora.py, peft/utils.py `ParallelLinearAdapter`, training/setup.py.
"""

from __future__ import annotations

import math

from planner.inputs.model import LatentAttention
from planner.inputs.workload import Workload
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Rule, divides
from planner.runtimes.family import Job
from planner.runtimes.megatron_bridge.code import Section
from planner.runtimes.megatron_bridge.run_sections import starts_trained
from planner.runtimes.megatron_lm.architecture import architecture, known_architecture
from planner.runtimes.megatron_lm.settings import DROPOUT
from planner.runtimes.settings import NO_CHANGES, Changes


def adapter_section(plan: Plan, job: Job, changes: Changes = NO_CHANGES) -> Section:
    """Return the fields of LoRA: an adapter beside the targets in every block, and one for each expert."""
    regathers = changes.get("adapter_regathers_input", True) and plan.sequence_parallel
    fields: Section = {
        "target_modules": list(_targets(job)),
        "dim": job.workload.lora_rank,
        "alpha": 2 * job.workload.lora_rank,
        "dropout": DROPOUT if changes.get("adapter_dropout", False) else 0.0,
        "sequence_parallel_input_regather": bool(regathers and plan.tp > 1),
    }
    if changes.get("adapter_all_to_all", False):
        fields["a2a_experimental"] = True
    if job.model.expert_kinds:
        fields["share_expert_adapters"] = False
    return fields


def _targets(job: Job) -> tuple[str, ...]:
    mixer = architecture(job.model).mixer
    into: tuple[str, ...] = ("linear_qkv",)
    if isinstance(mixer, LatentAttention):
        queries = ("linear_q_down_proj", "linear_q_up_proj") if mixer.q_lora_rank else ("linear_q_proj",)
        into = (*queries, "linear_kv_down_proj", "linear_kv_up_proj")
    named: dict[str, tuple[str, ...]] = {
        "qkv": into,
        "proj": ("linear_proj",),
        "fc1": ("linear_fc1",),
        "fc2": ("linear_fc2",),
    }
    named |= {"mixer": ("in_proj", "out_proj")} if job.model.recurrents else {}
    wanted = job.workload.lora_targets or named
    return tuple(name for group in wanted for name in named[group])


def adapter_notes(work: Workload) -> tuple[str, ...]:
    """Return what a user should know before adapters are trained, or parts beside frozen ones."""
    read = (
        "Frozen weights are read from CHECKPOINT: a checkpoint of Megatron-Bridge, or a Hugging Face folder "
        "of the same model."
    )
    if work.method != "lora":
        return (read,) if starts_trained(work) else ()
    return (
        f"{read} Checkpoints of the run hold the adapters alone.",
        "The scale of the adapters (alpha, twice the rank) is a placeholder.",
        "Router, embedding and head carry no adapter; the price counts the whole of each adapter half that "
        "Megatron-Bridge divides over tp.",
    )


def adapter_rule(plan: Plan, job: Job) -> Rule:
    """Return the rule on what divides adapters."""
    work = job.workload
    adapters, rank = work.method == "lora", work.lora_rank
    experts = known_architecture(job.model)[0].experts is not None
    return Rule(
        "tp-divides-lora-rank",
        not adapters or divides(plan.tp, rank) & divides(plan.etp if experts else 1.0, rank),
        lambda: (
            f"lora rank {rank} over tp {plan.tp:g}" + (f", etp {plan.etp:g}" if experts else ""),
            "a rank that they divide, since adapters are split as their layers are",
            f"lora rank {_divisible_rank(rank, plan.tp, plan.etp if experts else 1.0)}",
        ),
    )


def adapter_width_rule(plan: Plan, job: Job) -> Rule:
    """Return the rule that tp divides the width that adapters of row-parallel layers give back.

    Their second half is a column-parallel layer, ``linear_out`` of `ParallelLinearAdapter`.
    """
    wanted, hidden = job.workload.lora_targets or ROWS, job.model.hidden
    experts = known_architecture(job.model)[0].experts is not None
    concerned = job.workload.method == "lora" and not set(ROWS).isdisjoint(wanted)
    return Rule(
        "tp-divides-lora-outputs",
        not concerned or divides(plan.tp, hidden) & divides(plan.etp if experts else 1.0, hidden),
        lambda: (
            f"adapters of width {hidden} over tp {plan.tp:g}" + (f", etp {plan.etp:g}" if experts else ""),
            "a hidden size that they divide, or adapters on qkv and fc1 alone",
            f"tp {math.gcd(int(plan.tp), hidden)}",
        ),
    )


ROWS = ("proj", "fc2")
"""Targets whose layers split their inputs."""


def frozen_ends_rule(job: Job) -> Rule:
    """Return the rule that embedding and head stay frozen: Megatron-Bridge's LoRA trains adapters alone."""
    targets = job.workload.lora_targets or ()
    return Rule(
        "adapters-alone",
        "ends" not in targets,
        lambda: (
            "lora targets ends",
            "adapters alone: embedding and head are frozen",
            f"--lora-targets {'+'.join(name for name in targets if name != 'ends') or 'all'}",
        ),
    )


def without_fsdp_rule(plan: Plan, job: Job) -> Rule:
    """Return the rule that adapters are trained without Megatron-FSDP."""
    return Rule(
        "lora-without-fsdp",
        job.workload.method != "lora" or plan.zero <= 1,
        lambda: (f"lora with zero {plan.zero} (Megatron-FSDP)", "zero 0 or 1", "zero 1"),
    )


def _divisible_rank(rank: int, tp: Num, etp: Num) -> int:
    """Return the smallest rank from ``rank`` on that tp and etp divide."""
    step = math.lcm(int(tp), int(etp))
    return math.ceil(rank / step) * step
