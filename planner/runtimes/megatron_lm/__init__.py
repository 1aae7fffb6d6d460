"""Megatron-LM: GPT and hybrid models on Megatron-core, started through ``pretrain_gpt.py`` and its like."""

from __future__ import annotations

from planner.dataclasses import replace
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Command, Job, Runtime
from planner.runtimes.idle import in_effect
from planner.runtimes.megatron_lm.architecture import known_architecture
from planner.runtimes.megatron_lm.choices import choice_rules, choice_variables, release_rules
from planner.runtimes.megatron_lm.environment import environment
from planner.runtimes.megatron_lm.flags import arguments
from planner.runtimes.megatron_lm.groups import CORE
from planner.runtimes.megatron_lm.hybrid import PROGRAM, hybrid_rules, is_hybrid
from planner.runtimes.megatron_lm.idle import IDLE
from planner.runtimes.megatron_lm.lengths import length_flags, length_rules
from planner.runtimes.megatron_lm.notes import notes
from planner.runtimes.megatron_lm.numerics import unflagged
from planner.runtimes.megatron_lm.precision_rules import PRECISIONS
from planner.runtimes.megatron_lm.rules import SCHEDULES, core_pass_rules, core_rules, even_split
from planner.runtimes.megatron_lm.run_flags import (
    NEEDS,
    PRODUCTION,
    STEP_LINE,
    defaults,
    smoke_flags,
    where_set,
)
from planner.runtimes.megatron_lm.saving import saves
from planner.runtimes.megatron_lm.settings import SETTINGS, as_set, set_flags
from planner.runtimes.megatron_lm.sharding_rules import OPTIMIZERS
from planner.runtimes.megatron_lm.sparse import indexer_release_rule, indexer_rules, indexer_setting_rules
from planner.runtimes.offered import fits_model, workload_rules
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.training_run import run_of
from planner.runtimes.traits import Traits


def rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules of Megatron-LM for a plan or a batch of plans."""
    return core_rules(plan, job)


def pass_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return those that hold or not whatever the states."""
    arch, _ = known_architecture(job.model)
    return [
        *core_pass_rules(plan, job),
        fits_model("numerics-have-flags", unflagged(job.model, arch), "--runtime megatron-bridge"),
        *workload_rules(job.workload, runtime),
        *hybrid_rules(plan, job.model, runtime),
        indexer_release_rule(job, runtime),
        *indexer_rules(plan, job),
    ]


def setting_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is switched on beside a plan or a batch of plans."""
    return [
        *choice_rules(plan, job, runtime),
        *release_rules(plan, job, runtime, ENTRY.traits),
        *indexer_setting_rules(job, runtime),
        *length_rules(plan, job, runtime),
    ]


def command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts a legal scalar plan, from the root of a Megatron-LM checkout."""
    job = replace(job, workload=as_set(job.workload, changes))
    asked = in_effect(IDLE, plan, job, changes)
    flags = set_flags(arguments(plan, job, version), plan, job, asked, version)
    flags = (*flags, *length_flags(plan, job, changes))
    return Command(
        program=(PROGRAM if is_hybrid(job.model) else "pretrain_gpt.py", *flags),
        environment=environment(plan, job) | choice_variables(plan, job, asked, "tp_exposed" in asked),
        production=PRODUCTION,
        smoke=smoke_flags(job, version),
        production_needs=NEEDS,
        defaults=defaults(run_of(job)),
        where_set=where_set(plan, job),
        step_line=STEP_LINE,
        notes=notes(plan, job),
    )


ENTRY = Runtime(
    name="megatron-lm",
    title="Megatron-LM",
    versions=("0.20", "0.19", "0.18", "0.17", "0.16"),
    cite="https://github.com/NVIDIA/Megatron-LM/tree/d98e8a64ddf34856e74b24714e3bedb2f5a39553",
    # Experts as fitted to Megatron-Bridge, whose layers with experts are Megatron-core's own.
    traits=Traits().with_values(
        whole_matrices="owned",
        norms="in-product",
        optimizer_step="megatron-core",
        product_workspaces=3.0,
        sharded_exposed=0.3,
        expert_host_seconds=5.7e-4,
        expert_layer_host_seconds=9.1e-3,
        ep_traffic=2.9,
        dispatcher="all-to-all",
        all_to_all_traffic=12.8,
    ),
    default_zero=1,
    zero_stages=(0, 1, 2, 3),
    schedules=SCHEDULES,
    cp_methods=("ring", "all-gather", "all-to-all", "usp"),
    recomputes=("none", "selective", "full"),
    offloads=("none", "optimizer"),
    precisions=PRECISIONS,
    methods=("full",),
    optimizers=tuple(OPTIMIZERS),
    own_rules=rules,
    pass_rules=pass_rules,
    setting_rules=setting_rules,
    hybrid_sharding=True,
    # transformer_config.py, `account_for_embedding_in_pipeline_split` and the same for the loss.
    bare_ends=True,
    own_split=even_split,
    command=command,
    behind_saves="writes",
    saves=saves,
    grouping=CORE,
    idle=IDLE,
    settings={**SETTINGS, "tp_exposed": (0.25,), "context_by_length": (True,), "stages_inside": (True,)},
    searched=(
        "cuda_graphs",
        "dynamic_context",
        "expert_dispatcher",
        "expert_overlap",
        "shared_expert_overlap",
        "low_bit_weights",
        "tp_overlap",
        "gradients",
        "precision_aware",
    ),
    one_gradient_buffer=True,
    trains_prediction=True,
    aliases=("megatron", "mcore", "megatron-core"),
)
