"""What Megatron-core refuses, and what it would silently change, as rules on a plan or a batch of plans.

Read in Megatron-LM d98e8a64 (core 0.20): arguments.py `validate_args`, transformer_config.py
`TransformerConfig.__post_init__`, parallel_state.py, schedules.py and moe_layer.py; the limits of context
parallel attention in Transformer Engine 2.9, context_parallel.py.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.formulas.pipeline import round_microbatches
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.mixers.short_conv import ShortConv
from planner.inputs.model import LatentAttention, ModelSpec
from planner.numeric import Num
from planner.plan import Plan
from planner.rules import Rule, divides, nearest_divisors
from planner.runtimes.family import Job
from planner.runtimes.megatron_lm.architecture import Architecture, known_architecture
from planner.runtimes.megatron_lm.context import context_rules
from planner.runtimes.megatron_lm.hybrid import is_hybrid
from planner.runtimes.megatron_lm.numerics import unsaid
from planner.runtimes.megatron_lm.offload import offload_rules
from planner.runtimes.megatron_lm.precision_rules import precision_rules
from planner.runtimes.megatron_lm.recompute import recompute_rules
from planner.runtimes.megatron_lm.sharding_rules import sharding_rules
from planner.runtimes.offered import divisor_rule, exactly, fits_model, offered

SCHEDULES: Final = ("1f1b", "interleaved-1f1b")


def even_split(model: ModelSpec, stages: int) -> tuple[int, ...] | None:
    """Return equal numbers of layers, however unlike they are; None where they do not divide.

    The pattern of a hybrid names its borders always, so that it is cut by what its layers take.

    References
    ----------
    .. [1] Megatron-LM, ``megatron/core/transformer/transformer_block.py``, ``get_num_layers_to_build``:
       without a layout, counts at the ends or ends that count as layers, all stages have as many.
    """
    each, left = divmod(model.num_layers, stages)
    return None if left or not each or is_hybrid(model) else (each,) * stages


def core_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules of Megatron-core on ZeRO stage, shards and offload, whoever starts it."""
    return [*sharding_rules(plan, job.workload), *offload_rules(plan, job.model)]


def core_pass_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the other rules of Megatron-core, whoever starts it."""
    arch, missing = known_architecture(job.model)
    return [
        fits_model("model-expressible", (*missing, *unsaid(job.model, arch)), _elsewhere(job.model)),
        *tensor_rules(plan, arch),
        *sequence_rules(plan, job),
        *context_rules(plan, arch),
        *expert_rules(plan, arch),
        *pipeline_rules(plan, job.model),
        *recompute_rules(plan, job.workload, arch),
        *precision_rules(plan, job, arch),
    ]


def _elsewhere(model: ModelSpec) -> str:
    """Return how to ask for a runtime that trains layers of transformers, or any module of one's own."""
    hub = model.attentions and any(isinstance(one, Mamba1 | ShortConv) for one in model.recurrents)
    own = any(block.extras for block in model.blocks.values())
    return "--runtime fsdp" if hub or own else "another runtime"


def tensor_rules(plan: Plan, arch: Architecture) -> list[Rule]:
    """Return the rules on what tensor parallelism divides."""
    heads, groups = arch.mixer.heads, arch.mixer.kv_heads
    rules = [divisor_rule("tp-divides-heads", "tp", plan.tp, heads, "the heads")]
    if not isinstance(arch.mixer, LatentAttention):
        rules.append(
            Rule(
                "tp-fits-query-groups",
                np.logical_or(divides(plan.tp, groups), divides(groups, plan.tp)),
                lambda: (
                    f"tp {plan.tp:g}",
                    f"a divisor or a multiple of the {groups} query groups",
                    f"tp {_near_groups(plan.tp, groups)}",
                ),
            )
        )
    if arch.dense is not None:
        rules.append(
            divisor_rule("tp-divides-ffn", "tp", plan.tp, arch.dense.inner, "the feed-forward width")
        )
    if arch.experts is not None:
        inner, shared = arch.experts.inner, arch.experts.shared_inner
        rules.append(divisor_rule("etp-divides-experts", "etp", plan.etp, inner, "the expert width"))
        if shared:
            rules.append(
                divisor_rule("tp-divides-shared-expert", "tp", plan.tp, shared, "the shared expert's width")
            )
    return rules


def _near_groups(tp: Num, groups: int) -> str:
    """Return the divisors and multiples of ``groups`` next to ``tp``."""
    if tp < groups:
        return nearest_divisors(tp, groups)
    low = int(tp // groups) * groups
    return f"{low} or {low + groups}"


def sequence_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules on sequence length and sequence parallelism, which is switched off at tp 1."""
    seq_len = job.workload.seq_len
    ranks = plan.cp * (plan.tp if plan.sequence_parallel else 1.0)
    halves = np.where(np.greater(plan.cp, 1), 2 * plan.cp, 1.0)
    return [
        Rule(
            "sequence-divides",
            divides(ranks, seq_len) & divides(halves, seq_len),
            lambda: (
                f"sequence length {seq_len}",
                f"a multiple of {'tp · cp' if plan.sequence_parallel else 'cp'} = {ranks:g}"
                + (f" and of 2 · cp = {float(halves):g}" if plan.cp > 1 else ""),
                str(
                    max(1, seq_len // int(np.lcm(int(ranks), int(halves))))
                    * int(np.lcm(int(ranks), int(halves)))
                ),
            ),
        ),
    ]


def expert_rules(plan: Plan, arch: Architecture) -> list[Rule]:
    """Return the rules on experts; without any, their tensor parallel degree says nothing."""
    if arch.experts is None:
        return []
    rules = [
        Rule(
            "experts-need-sequence-parallel",
            np.logical_or(plan.sequence_parallel, np.less_equal(plan.tp, 1)),
            lambda: (
                f"tp {plan.tp:g} without sequence parallelism",
                "sequence parallelism",
                "--sequence-parallel",
            ),
        )
    ]
    if arch.biases == "all":
        rules.append(
            exactly("biased-experts-whole", "etp", plan.etp, 1.0, "experts with biases are never divided")
        )
    return rules


def pipeline_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules on schedule, chunks and stages."""
    several = np.greater(plan.pp, 1)
    interleaved = plan.schedule == "interleaved-1f1b"
    chunked = np.greater(plan.vpp, 1)
    rounds = np.logical_not(chunked)
    if np.any(chunked):
        group = round_microbatches(plan.pp, plan.num_microbatches)
        rounds = rounds | (np.greater_equal(plan.num_microbatches, plan.pp) & divides(1.0, group))
    return [
        offered("schedule-offered", "schedule", plan.schedule, SCHEDULES, several),
        Rule(
            "chunks-fit-schedule",
            (several & (chunked if interleaved else np.logical_not(chunked)))
            | (np.logical_not(several) & np.logical_not(chunked)),
            lambda: (
                f"schedule {plan.schedule} with pp {plan.pp:g}, vpp {plan.vpp:g}",
                "vpp 1 with 1f1b or pp 1, vpp 2 or more with interleaved-1f1b",
                "schedule 1f1b, vpp 1" if plan.vpp == 1 or plan.pp == 1 else "schedule interleaved-1f1b",
            ),
        ),
        Rule(
            "rounds-fill-pipeline",
            rounds,
            lambda: (
                f"{plan.num_microbatches:g} micro-batches over pp {plan.pp:g} interleaved",
                "micro-batches that divide into equal rounds of at least pp",
                f"{max(1, plan.num_microbatches // plan.pp) * plan.pp:g} micro-batches",
            ),
        ),
    ]
