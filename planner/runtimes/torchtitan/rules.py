"""What torchtitan accepts, and what PyTorch's pipeline schedules ask of the micro-batches."""

from __future__ import annotations

import numpy as np

from planner.inputs.model import Experts, LatentAttention, ModelSpec
from planner.inputs.workload import Workload
from planner.plan import Plan
from planner.rules import Rule, divides, nearest_divisors
from planner.runtimes.family import Job, Runtime
from planner.runtimes.offered import (
    divisor_rule,
    dtype_rules,
    fits_model,
    mesh_shard_rule,
    one_dtype_rule,
    sequence_rule,
    technique_rules,
    ties_rule,
    uses,
    whole_offload_rules,
    width_rules,
)
from planner.runtimes.torchtitan import delta, sinking, vision
from planner.runtimes.torchtitan.choice import TitanChoice
from planner.runtimes.torchtitan.model_data import family
from planner.runtimes.torchtitan.numerics import unsaid
from planner.runtimes.torchtitan.releases import as_newest, is_old, nth_layer_rules, release_rules
from planner.runtimes.torchtitan.schedules import ASYNC_EXPOSED, SCHEDULES

BUILDABLE = {"norms on heads", "heads that do not add up to the hidden size", "latent attention"}
"""Parts beyond a plain gated layer that the models of torchtitan have."""

DTYPES = dict.fromkeys(("state_dtype", "master_dtype", "gradient_dtype"), ("fp32", "bf16"))
"""Parameters, gradients and states have one dtype, ``training.dtype``; compute is bfloat16."""


def training_dtype(work: Workload) -> str:
    """Return the dtype of parameters, gradients and states, as torchtitan names it."""
    return "bfloat16" if work.master_dtype == "bf16" else "float32"


def dtype_rule(work: Workload) -> Rule:
    """Return the rule that parameters, gradients and states have one dtype."""
    return one_dtype_rule(work, DTYPES, "torchtitan's training.dtype")


def torchtitan_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a plan must keep to run on torchtitan."""
    model, work = job.model, job.workload
    tokens = plan.micro_batch * work.seq_len
    shared = np.where(plan.sequence_parallel, plan.tp, 1.0) * np.where(
        np.greater(plan.cp, 1), 2 * plan.cp, 1.0
    )
    return [
        *technique_rules(as_newest(plan), job, runtime),
        *nth_layer_rules(plan, model),
        *dtype_rules(work, DTYPES),
        *whole_offload_rules(plan),
        dtype_rule(work),
        fits_model("model-in-torchtitan", (*missing_parts(model), *unsaid(model, family(model)))),
        mesh_shard_rule(plan),
        Rule(
            "replicas-without-context",
            (plan.zero > 0) | np.equal(plan.cp, 1),
            lambda: (f"zero 0 with cp {plan.cp:g}", "zero 2 or 3: context parallelism shards", "zero 3"),
        ),
        *width_rules(plan, model),
        divisor_rule("vocabulary-divides", "tp", plan.tp, model.vocab, "the vocabulary"),
        sequence_rule(tokens, shared, "tp under sequence parallelism · 2 · cp"),
        *_pipeline_rules(plan, model),
        *_expert_rules(plan, model),
        *sinking.sinking_rules(plan, job),
        *delta.delta_rules(plan, job),
        *vision.vision_rules(plan, job),
    ]


def setting_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is switched on; none of a release whose files are not written."""
    version, traits = runtime.release or runtime.versions[0], runtime.traits
    if version not in runtime.versions:
        return []
    overlaps = traits.tensor.exposed == ASYNC_EXPOSED
    choice = TitanChoice(
        traits.kernels.compiled, overlaps, traits.low_bit.float8_scales, int(traits.loss.chunks)
    )
    return choice_rules(plan, job, choice, version)


def choice_rules(plan: Plan, job: Job, choice: TitanChoice, version: str) -> list[Rule]:
    """Return the rules on switches of a run, by release."""
    tokens = job.workload.seq_len * plan.micro_batch / plan.cp
    fp8 = job.workload.precision == "fp8"
    splits = plan.schedule in SCHEDULES and SCHEDULES[plan.schedule].splits_backward
    rules = [
        Rule(
            "loss-parts-are-equal",
            divides(float(choice.loss_chunks), tokens),
            lambda: (
                f"{tokens:g} tokens of a rank in {choice.loss_chunks} parts",
                f"parts of the micro-batch's tokens at the loss that are alike, {choice.loss_chunks} of them",
                "--set loss_chunks=1",
            ),
        ),
        Rule(
            "release-has-loss-parts",
            choice.loss_chunks == 1 or not is_old(version),
            lambda: (
                f"a loss in {choice.loss_chunks} parts with release {version}",
                "the newest release, or a whole loss",
                "--set loss_chunks=1",
            ),
        ),
        Rule(
            "release-has-float8-recipe",
            choice.float8_scales == "rows" or is_old(version) or not fp8,
            lambda: (
                f"float8 with a scale for a tensor, release {version}",
                "a scale for each row, or a release from 0.2.0 to 0.2.2",
                "--set float8_scales=rows, or --target-version 0.2.2",
            ),
        ),
    ]
    rules += [*release_rules(plan, job, version), *delta.uncompiled_rules(job, choice.compiled)]
    if not choice.async_tp:
        return rules
    compiles = choice.compiled & (np.less_equal(plan.pp, 1) | (not splits))
    return [
        *rules,
        Rule(
            "async-tp-needs-compile",
            np.less_equal(plan.tp, 1) | (compiles & plan.sequence_parallel),
            lambda: (
                f"async tensor parallelism, schedule {plan.schedule}, "
                f"compiled {str(choice.compiled).lower()}",
                "compiled layers and sequence parallelism",
                "--set async_tp=off",
            ),
        ),
    ]


def missing_parts(model: ModelSpec) -> tuple[str, ...]:
    """Return the parts of a model that torchtitan's models do not have."""
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    needs = set().union(*(uses(model, block) for block in blocks)) - BUILDABLE
    needs -= sinking.BUILDABLE if sinking.is_sinking(model) else set()
    needs -= delta.BUILDABLE if delta.is_delta(model) else set()
    if len({type(mixer) for mixer in model.attentions}) > 1:
        needs.add("latent attention beside other attention")
    if isinstance(blocks[0].mixer, LatentAttention) and len(set(model.attentions)) != 1:
        needs.add("latent attention of several shapes")
    experts = [block.ffn for block in blocks if isinstance(block.ffn, Experts)]
    if any(ffn.shared_gate for ffn in experts) and not delta.is_delta(model):
        needs.add("gates on shared experts")
    if any(ffn.router_bias for ffn in experts) and not sinking.is_sinking(model):
        needs.add("router biases")
    if model.prediction is not None:
        needs.add("multi-token prediction")
    return (*sorted(needs), *vision.unbuilt(model))


def _pipeline_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    flat = np.equal(plan.pp, 1)
    rules = [
        Rule(
            "no-stages-without-pipeline",
            np.logical_not(flat) | np.equal(plan.vpp, 1),
            lambda: (f"vpp {plan.vpp:g} with pp 1", "vpp 1 without a pipeline", "vpp 1"),
        ),
        ties_rule(plan, model),
    ]
    if plan.schedule not in SCHEDULES:
        return rules
    schedule = SCHEDULES[plan.schedule]
    least, most = schedule.least_chunks, schedule.most_chunks
    chunks = f"{least:g} or more" if most > least else f"{least:g}"
    return [
        *rules,
        Rule(
            "schedule-chunks",
            flat | (np.greater_equal(plan.vpp, least) & np.less_equal(plan.vpp, most)),
            lambda: (f"{schedule.name} with vpp {plan.vpp:g}", f"vpp {chunks}", f"vpp {least:g}"),
        ),
        Rule(
            "schedule-micro-batches",
            flat | schedule.microbatches(plan.pp, plan.num_microbatches),
            lambda: (
                f"{schedule.name} with {plan.num_microbatches:g} micro-batches over pp {plan.pp:g}",
                schedule.text,
                "schedule gpipe" if most == 1 else "schedule breadth-first",
            ),
        ),
    ]


def _expert_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    region = np.where(plan.zero == 0, 1.0, plan.zero_shards) * plan.tp
    degree = np.where(np.greater(plan.ep, 1), 1.0, plan.tp) if model.expert_kinds else 1.0
    return [
        Rule(
            "expert-parallel-in-shards",
            divides(plan.ep, region),
            lambda: (
                f"ep {plan.ep:g}",
                f"a divisor of dp_shard · cp · tp = {float(region):g}",
                f"ep {nearest_divisors(plan.ep, int(region))}",
            ),
        ),
        Rule(
            "expert-tensor-degree",
            np.equal(plan.etp, degree),
            lambda: (
                f"etp {plan.etp:g} with ep {plan.ep:g} and tp {plan.tp:g}",
                "etp 1 under expert parallelism, tp without it",
                f"etp {float(degree):g}",
            ),
        ),
        *_expert_shard_rules(plan, model),
    ]


def _expert_shard_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rule that experts which are cut along their rows are cut evenly.

    Where more ranks share the weights of a layer's experts than there are experts, torchtitan shards
    dimension 1 of (experts, inner, hidden) and (experts, hidden, inner); FSDP2 refuses uneven parts of it.

    References
    ----------
    .. [1] torchtitan, distributed/fsdp.py, ``apply_fsdp_to_decoder``: ``efsdp_ep_size > num_experts``.
    .. [2] PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param.py, ``_init_sharded_param``.
    """
    sharded = np.where(plan.zero == 0, 1.0, plan.zero_shards)
    parallel = np.greater(plan.ep, 1)
    shards = np.where(parallel, sharded * plan.tp / plan.ep, sharded)
    ranks = np.where(parallel, sharded * plan.tp, plan.dp * plan.cp * plan.tp)
    rules = []
    for experts in model.expert_kinds:
        rows = np.gcd(model.hidden, experts.inner)
        even = divides(shards, model.hidden) & divides(shards, experts.inner / plan.etp)

        def tell(count: int = experts.experts, rows: int = int(rows)) -> tuple[str, str, str]:
            return (
                f"experts in {float(shards):g} shards with ep {plan.ep:g}",
                f"shards that divide the {rows} rows that experts share, or at most {count} ranks",
                f"{nearest_divisors(float(shards), rows)} shards, or a larger pp",
            )

        rules.append(Rule("expert-shards-even", np.less_equal(ranks, experts.experts) | even, tell))
    return rules
