"""Context parallelism by length: Megatron-core's ``hybrid_context_parallel``, its flags and its limits.

Read in Megatron-LM d98e8a64: training/arguments.py, core/pipeline_parallel/hybrid_cp_schedule.py,
core/datasets/data_schedule.py, core/transformer/multi_latent_attention.py.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from planner.inputs.model import LatentAttention
from planner.plan import Plan
from planner.rules import Mask, Rule
from planner.runtimes.family import Job, Runtime
from planner.runtimes.megatron_lm.offload import optimizer_share
from planner.runtimes.settings import Changes

TRAIT: Final = "context_by_length"
FLAG: Final = "--hybrid-context-parallel"
CAPACITY: Final = "--max-seqlen-per-dp-cp-rank"
SINCE: Final = "0.20"
"""Release whose loader tells documents of ordinary data apart (``--dataloader-inter-document-masking``)."""

OFF: Final = "--set dynamic_context=false"


def length_flags(plan: Plan, job: Job, changes: Changes) -> tuple[str, ...]:
    """Return the flags of context parallelism by length; none where it is not asked for."""
    work = job.workload
    if not changes.get(TRAIT) or work.seq_lens is None:
        return ()
    capacity = work.max_tokens_per_rank or math.ceil(work.seq_len / plan.cp)
    return (
        *(FLAG, CAPACITY, str(capacity)),
        *("--dataloader-inter-document-masking", "--dataloader-type", "single", "--calculate-per-token-loss"),
    )


def length_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on context parallelism by length; none where it is off, or lengths are alike."""
    traits, model = runtime.traits, job.model
    if not traits.context.by_length or job.workload.seq_lens is None:
        return []
    mixers = [block.mixer for block in model.blocks.values()]
    release, capacity = runtime.release or runtime.versions[0], job.workload.max_tokens_per_rank or 0

    def rule(name: str, holds: Mask, found: str, expected: str) -> Rule:
        return Rule(
            f"dynamic-context-{name}", holds, lambda: (f"dynamic_context with {found}", expected, OFF)
        )

    return [
        rule("unpiped", np.equal(plan.pp, 1), "a pipeline", "pp 1: its schedule has none"),
        rule(
            "sharding", plan.zero <= 1, f"zero {plan.zero}", "zero 0 or 1: Megatron-FSDP gathers in each pass"
        ),
        rule("graphs", not traits.kernels.graphed, "CUDA graphs", "none: shapes change from pass to pass"),
        rule("one-pack", np.equal(plan.micro_batch, 1), "several sequences in a pass", "micro-batch 1"),
        rule("dense", not model.expert_kinds, "experts", "none: ranks run different numbers of passes"),
        rule(
            "attention",
            not any(isinstance(mixer, LatentAttention) for mixer in mixers),
            "latent attention",
            "attention by heads: the other has no groups by length",
        ),
        rule("ring", np.equal(plan.cp, 1) | (plan.cp_method == "ring"), plan.cp_method, "cp method ring"),
        rule(
            "shapes",
            np.equal(plan.tp, 1) | (traits.tensor.exposed >= 1.0),
            "tp_overlap on",
            "tp_overlap off: its buffers have one shape",
        ),
        rule(
            "on-device",
            plan.offload == "none" or optimizer_share(plan.offload) > 0,
            f"offload {plan.offload}",
            "activations on the device",
        ),
        rule("recurrent", not model.recurrents, "recurrent layers", "none: a state is not cut by documents"),
        rule(
            "capacity",
            capacity * plan.cp <= job.workload.seq_len,
            f"{capacity:,} tokens on a rank",
            "no more than a rank's part of the longest sequence, for which memory is priced",
        ),
        rule("release", release >= SINCE, f"release {release}", f"release {SINCE}"),
    ]
