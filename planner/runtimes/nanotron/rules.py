"""What nanotron accepts, its own cut of stages included."""

from __future__ import annotations

import numpy as np

from planner.inputs.model import Attention, Experts, ModelSpec
from planner.inputs.numerics import Router, without_place
from planner.plan import Plan
from planner.rules import Mask, Rule
from planner.runtimes.family import Job, Runtime
from planner.runtimes.nanotron.table import bare_period
from planner.runtimes.numerics import RARE
from planner.runtimes.offered import (
    divisor_rule,
    dtype_rules,
    exactly,
    fits_model,
    sequence_rule,
    technique_rules,
    uses,
    whole_shard_rule,
    width_rules,
)

DTYPES = {"state_dtype": ("fp32",), "master_dtype": ("fp32",), "gradient_dtype": ("fp32",)}
"""Master weights and accumulated gradients are float32."""


def nanotron_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return what a plan must keep to run on nanotron."""
    model, work = job.model, job.workload
    divisor = np.where(plan.sequence_parallel, plan.tp, 1.0)
    start = "the trainer cannot initialise weights under context parallelism"
    mesh = "the ranks of expert parallelism are missing from its product of degrees"
    return [
        *technique_rules(plan, job, runtime),
        *dtype_rules(work, DTYPES),
        whole_shard_rule(plan),
        fits_model("model-in-nanotron", (*missing_parts(model), *unsaid(model))),
        exactly("no-virtual-stages", "vpp", plan.vpp, 1.0, "its engines run one stage per rank"),
        exactly("no-context-parallel", "cp", plan.cp, 1.0, start),
        exactly("no-expert-parallel", "ep", plan.ep, 1.0, mesh),
        exactly("experts-whole", "etp", plan.etp, 1.0, "experts are not split"),
        *width_rules(plan, model),
        divisor_rule("vocabulary-divides", "tp", plan.tp, model.vocab, "the vocabulary"),
        sequence_rule(work.seq_len, divisor, "tp"),
        _whole_nodes_rule(job),
        *_pipeline_rules(plan, model),
        *_expert_rules(plan, model),
    ]


def _whole_nodes_rule(job: Job) -> Rule:
    """Return the rule of its rank array, which has a row for each node, and of up to 8 ranks one row."""
    node = job.hardware.pool.gpus_per_node
    return Rule(
        "whole-nodes",
        job.gpus <= node or (job.gpus > 8 and job.gpus % node == 0),
        lambda: (f"{job.gpus} GPUs on nodes of {node}", "whole nodes, more than 8 GPUs", f"{node * 8} GPUs"),
    )


def _turned(mixer: object) -> object:
    """Return a mixer as it is with rotary positions."""
    return mixer.model_copy(update={"rotary": True}) if isinstance(mixer, Attention) else mixer


def missing_parts(model: ModelSpec) -> tuple[str, ...]:
    """Return the parts of a model that nanotron's Qwen2 model does not have."""
    blocks = [model.blocks[name] for name in dict.fromkeys(model.layers)]
    has = {"query/key/value biases", *(["attention without rotary positions"] if bare_period(model) else [])}
    needs = set().union(*(uses(model, block) for block in blocks)) - has
    if len({_turned(block.mixer) for block in blocks}) != 1:
        needs.add("layers with different attention")
    if model.prediction is not None:
        needs.add("multi-token prediction")
    ffns = list(dict.fromkeys(block.ffn for block in blocks))
    experts = [ffn for ffn in ffns if isinstance(ffn, Experts)]
    if len(experts) > 1 or len(ffns) - len(experts) > 1:
        needs.add("feed-forward layers of several widths")
    if any(ffn.router_bias for ffn in experts):
        needs.add("router biases")
    if any(bool(ffn.shared_inner) != ffn.shared_gate for ffn in experts):
        needs.add("shared experts without a gate")
    return tuple(sorted(needs))


def unsaid(model: ModelSpec) -> tuple[str, ...]:
    """Return the fields of the model's numerics that nanotron's Qwen2 model does not have.

    References
    ----------
    .. [1] nanotron 2411b022, config/models_config.py, ``Qwen2Config``, whose ``rope_scaling`` nothing reads;
       models/qwen.py, ``Qwen2MoELayer``: softmax over the scores of the chosen experts.
    """
    own = model.numerics
    found = without_place(own, RARE)
    if own.activation not in (None, "silu"):
        found.append(f"numerics.activation {own.activation}")
    if own.rope_scaling is not None and own.rope_scaling.kind != "linear":
        found.append(f"numerics.rope_scaling {own.rope_scaling.kind}")
    router = own.router or Router()
    wrong = {
        f"score {router.score}": router.score == "sigmoid",
        f"groups {router.groups}": router.grouped,
        f"scale {router.scale}": router.scale not in (None, 1.0),
        "normalize false": router.normalize is False,
        "expert_bias": bool(router.expert_bias),
    }
    return (*found, *(f"numerics.router.{text}" for text, there in wrong.items() if there))


def own_split(model: ModelSpec, stages: int, at_share: bool = False) -> tuple[int, ...]:
    """Return the layers per stage that nanotron chooses: a stage closes once it passes its share of the cost.

    With ``at_share`` it closes where it has its share to the byte, too.

    The cost of a layer is that of its attention and feed-forward weights, as if every head had its own keys
    and values, and the last block is the output head.

    References
    ----------
    .. [1] nanotron, models/base.py, ``build_model``, and models/qwen.py, ``get_block_compute_costs``.
    """
    ffn = model.blocks[model.layers[0]].ffn
    width = ffn.inner if ffn else 0
    layer = 4 * model.hidden * model.hidden + 3 * width * model.hidden
    costs = [0, *(layer for _ in model.layers), 0, model.vocab * model.hidden, 0, 0]
    ends = np.cumsum(costs)
    shares = [ends[-1] * ((stage + 1) / stages) for stage in range(stages)]
    counts, stage = [0] * stages, 0
    for index, end in enumerate(ends):
        counts[stage] += 1 <= index <= model.num_layers
        stage += bool(end > shares[stage] or (at_share and end == shares[stage] and stage + 1 < stages))
    return tuple(counts)


def _split_holds(plan: Plan, model: ModelSpec) -> Mask:
    degrees = np.asarray(plan.pp, dtype=float)
    cuts = {int(pp): own_split(model, int(pp)) for pp in np.unique(degrees) if pp <= model.num_layers}
    kept = [pp for pp, own in cuts.items() if min(own) > 0 and plan.stage_layers in (None, own)]
    return np.isin(degrees, kept)


def _pipeline_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    def tell() -> tuple[str, str, str]:
        own = own_split(model, int(plan.pp))
        words = "-".join(map(str, own))
        if min(own) == 0:
            return f"pp {plan.pp:g}, which nanotron cuts into {words}", "layers on all stages", "a smaller pp"
        split = "-".join(map(str, plan.stage_layers or own))
        return (f"stage layers {split}", f"nanotron's own split {words}", f"stage layers {words}")

    return [
        Rule("split-is-own", _split_holds(plan, model), tell),
        Rule(
            "enough-micro-batches",
            (plan.schedule != "1f1b") | np.greater_equal(plan.num_microbatches, plan.pp - 1),
            lambda: (
                f"{plan.num_microbatches:g} micro-batches over pp {plan.pp:g}",
                f"pp - 1 = {plan.pp - 1:g} or more",
                "a smaller micro-batch",
            ),
        ),
    ]


def _expert_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    if not model.expert_kinds:
        return []
    return [
        exactly("experts-without-tp", "tp", plan.tp, 1.0, "experts are not split over tensor-parallel ranks")
    ]
