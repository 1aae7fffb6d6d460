"""Megatron-Bridge: NVIDIA's recipes on Megatron-core, as a Python file with one ConfigContainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from planner.dataclasses import replace
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Command, Job, Runtime
from planner.runtimes.idle import ADAPTERS, in_effect
from planner.runtimes.megatron_bridge.adapters import (
    adapter_notes,
    adapter_rule,
    adapter_width_rule,
    frozen_ends_rule,
    without_fsdp_rule,
)
from planner.runtimes.megatron_bridge.hybrid import hybrid_rules
from planner.runtimes.megatron_bridge.own_layers import (
    as_built,
    core_job,
    own_layer_rules,
    own_setting_rules,
    own_traits,
)
from planner.runtimes.megatron_bridge.saving import saves
from planner.runtimes.megatron_bridge.script import Say, needs, real_needs, script_text
from planner.runtimes.megatron_bridge.settings import MASTERS, input_store_rules
from planner.runtimes.megatron_bridge.vision import (
    FAMILIES,
    SPLIT,
    UNFUSED,
    sees,
    vision_rules,
    vision_traits,
)
from planner.runtimes.megatron_bridge.vision import NOTES as SEEN
from planner.runtimes.megatron_lm import ENTRY as MEGATRON_LM
from planner.runtimes.megatron_lm.choices import choice_rules, choice_variables
from planner.runtimes.megatron_lm.environment import environment
from planner.runtimes.megatron_lm.groups import CORE
from planner.runtimes.megatron_lm.idle import IDLE
from planner.runtimes.megatron_lm.notes import notes
from planner.runtimes.megatron_lm.rules import core_pass_rules, core_rules, even_split
from planner.runtimes.megatron_lm.run_flags import STEP_LINE, defaults
from planner.runtimes.megatron_lm.settings import SETTINGS, as_set
from planner.runtimes.megatron_lm.sparse import indexer_rules, indexer_setting_rules
from planner.runtimes.offered import workload_rules
from planner.runtimes.settings import NO_CHANGES, Changes
from planner.runtimes.training_run import run_of
from planner.runtimes.traits import Traits

NAME: Final = "train.py"

UNSET: Final = ("MINUTES", "TENSORBOARD_DIR", "WANDB_PROJECT")
"""Variables that mean nothing where they are unset."""


def _positions_rule(model: ModelSpec, seq_len: int) -> Rule:
    learned = model.position_rows or seq_len
    return Rule(
        "positions-equal-sequence",
        bool(np.equal(learned, seq_len)),
        lambda: (f"sequence length {seq_len}", f"the {learned} learned positions, all of them", str(learned)),
    )


def model_traits(model: ModelSpec) -> Mapping[str, Any]:
    """Return what a model's own layers, and its encoder's, do that Megatron-core's do not."""
    return {**own_traits(model), **vision_traits(model)}


def rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules of Megatron-Bridge on states: those of Megatron-core, and its own."""
    return [*core_rules(plan, job), without_fsdp_rule(plan, job), *vision_rules(plan, job)]


def pass_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return those that hold or not whatever the states."""
    return [
        *core_pass_rules(plan, core_job(job)),
        *own_layer_rules(plan, job),
        *hybrid_rules(plan, job.model),
        *indexer_rules(plan, job),
        *workload_rules(job.workload, runtime),
        adapter_rule(plan, job),
        adapter_width_rule(plan, job),
        frozen_ends_rule(job),
        _positions_rule(job.model, job.workload.seq_len),
    ]


def setting_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is switched on beside a plan or a batch of plans."""
    return [
        *choice_rules(plan, job, runtime),
        *input_store_rules(job, runtime),
        *indexer_setting_rules(job, runtime),
        *own_setting_rules(job, runtime),
    ]


def command(plan: Plan, job: Job, version: str, changes: Changes = NO_CHANGES) -> Command:
    """Return what starts a legal scalar plan, wherever Megatron-Bridge is installed."""
    job = replace(job, workload=as_set(job.workload, changes))
    changes = in_effect((*IDLE, MASTERS, UNFUSED), plan, job, changes)
    if "tp_exposed" not in changes and not job.hardware.pool.joins(plan.tp):
        changes = {**changes, "tp_exposed": 1.0}
    variables = environment(plan, job) | choice_variables(plan, job, changes, "tp_exposed" not in changes)
    return Command(
        program=(NAME,),
        environment=variables,
        needs=needs(job),
        smoke=(),
        production_needs=real_needs(job),
        defaults=defaults(run_of(job)),
        where_set=dict.fromkeys(UNSET, ()),
        step_line=STEP_LINE,
        files={NAME: script_text(plan, job, Say(version, variables, changes))},
        notes=(*notes(plan, job), *adapter_notes(job.workload), *(SEEN if sees(job.model) else ())),
    )


ENTRY = Runtime(
    name="megatron-bridge",
    title="Megatron-Bridge",
    versions=("0.7",),
    cite="https://github.com/NVIDIA-NeMo/Megatron-Bridge/tree/067f987df03b8355b03192d88d70f1709fedf51a",
    # Transformer Engine's default for overlap without tuned buffers: 16 multiprocessors for a message, and
    # reduce-scatters in four parts, of which the last is waited for (pytorch/module/base.py, initialize_ub).
    # `overlap_p2p_comm` is on with several chunks on a rank, off with one (training/comm_overlap.py).
    # Buffers have no layout for an optimizer of whole layers: its models are built without
    # `use_layer_wise_distributed_optimizer` (training/setup.py).
    traits=Traits().with_values(
        whole_matrices="dealt",
        norms="in-product",
        optimizer_step="megatron-core",
        message_multiprocessors=16.0,
        tp_exposed=0.25,
        pp_exposed=0.5,
        plain_pp_exposed=1.0,
        sharded_exposed=0.3,
        dispatcher="all-to-all",
        adapter_regathers_input=True,
    ),
    default_zero=1,
    zero_stages=MEGATRON_LM.zero_stages,
    schedules=MEGATRON_LM.schedules,
    cp_methods=MEGATRON_LM.cp_methods,
    model_traits=model_traits,
    built=as_built,
    encoders=tuple(FAMILIES),
    split_encoders=SPLIT,
    recomputes=MEGATRON_LM.recomputes,
    offloads=MEGATRON_LM.offloads,
    precisions=MEGATRON_LM.precisions,
    methods=("full", "lora", "projector"),
    optimizers=MEGATRON_LM.optimizers,
    own_rules=rules,
    pass_rules=pass_rules,
    setting_rules=setting_rules,
    hybrid_sharding=True,
    bare_ends=MEGATRON_LM.bare_ends,
    own_split=even_split,
    command=command,
    behind_saves="writes",
    saves=saves,
    grouping=CORE,
    idle=(*IDLE, *ADAPTERS, MASTERS, UNFUSED),
    settings={
        **SETTINGS,
        "loss": ("transformer-engine",),
        "tp_exposed": (1.0,),
        "fp8_activation_input": (True,),
        "fp8_attention": (True,),
        "cached_transposes": (False,),
        "adapter_all_to_all": (True,),
        "adapter_dropout": (True,),
        "adapter_gathers_input": (False,),
        "adapter_regathers_input": (False,),
        "stages_inside": (True,),
        "whole_masters": (True,),
    },
    searched=(
        "cuda_graphs",
        "expert_dispatcher",
        "expert_overlap",
        "shared_expert_overlap",
        "loss_kernel",
        "low_bit_weights",
        "tp_overlap",
        "gradients",
        "precision_aware",
        "attention_precision",
    ),
    one_gradient_buffer=True,
    trains_prediction=True,
    aliases=("bridge", "nemo"),
)
