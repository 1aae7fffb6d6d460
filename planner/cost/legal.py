"""The rules of a plan: of its degrees, its techniques, the cluster's nodes, and its runtime.

`all_rules` is the one list. An estimate asks it for a plan; a search keeps the rows that obey its parts,
`degree_rules` first and those of offload and runtime last.
"""

from __future__ import annotations

import math

import numpy as np

from planner.cost.case import Case
from planner.cost.layer.diffusion_rules import diffusion_rules, shared_cores
from planner.cost.layer.encoder_rules import encoder_rules
from planner.cost.layer.heads import head_ranks
from planner.cost.layer.sequence_parts import parts_rules
from planner.cost.memory.host_rules import host_activation_rules, host_checkpoint_rules, offload_rules
from planner.cost.memory.resting import level_rules
from planner.cost.traffic.rank_order import island_rules, order_rules
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Mask, Rule, divides, nearest_divisors, structural_rules
from planner.runtimes.family import Job, Runtime
from planner.techniques.context import CONTEXT_METHODS
from planner.techniques.context.family import read_method
from planner.techniques.schedules import plain_schedule


def all_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return every rule of a plan or batch of plans."""
    return [
        *degree_rules(plan, case.job, case.runtime),
        *technique_rules(plan, case),
        *case.runtime.rules_as_run(plan, case.job),
    ]


def technique_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules that hold whatever the runtime: of techniques, cluster and nodes."""
    return [
        *pass_rules(plan, case),
        *offload_rules(plan, case),
        *host_activation_rules(plan, case),
        *host_checkpoint_rules(plan, case),
    ]


def degree_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules without which a plan has no price: its degrees cut everything into whole parts."""
    return structural_rules(plan, job.model, job.workload, job.gpus, runtime.bare_ends)


def pass_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of schedule, context method, sharding, sequence parallelism, and of the nodes."""
    return [
        _schedule_rule(plan, case),
        _heads_rule(plan, case),
        _shards_rule(plan),
        _sequence_rule(plan, case),
        _precision_rule(case),
        *hosting_rules(plan, case),
        _pool_rule(case),
        nodes_rule(case.job),
        *island_rules(plan, case.job, case.traits),
        *order_rules(plan, case),
        *recurrent_rules(plan, case),
        *shortcut_rules(case.job),
        *handed_rules(plan, case.model),
        *parts_rules(plan, case),
        *level_rules(plan, case),
        *forward_rules(plan, case),
        *encoder_rules(plan, case),
        *diffusion_rules(plan, case),
    ]


def handed_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rule that layers that read what others made stand on one rank: no pipeline hands it on."""
    if not model.hands_on:
        return []
    return [
        Rule(
            "layers-hand-on",
            np.equal(plan.pp, 1),
            lambda: (
                f"pp {plan.pp:g} with layers that read keys, or inputs, made before the layer before them",
                "pp 1: no message between stages with these is priced",
                "pp 1",
            ),
        )
    ]


def _adapts_mixers(case: Case) -> bool:
    """Whether adapters beside a model's mixers are priced.

    PEFT's are, by gated delta nets and dense layers; Megatron-Bridge's by Mamba-2, as its recipes have them.
    """
    if not case.adapter_library.separate:
        return all(isinstance(mixer, Mamba2) for mixer in case.model.recurrents)
    nets = all(isinstance(mixer, GatedDelta) for mixer in case.model.recurrents)
    return nets and not case.model.expert_kinds


def recurrent_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of mixers that pass a state along: tp and cp divide their heads, all is trained."""
    job, mixers = case.job, case.model.recurrents
    if not mixers:
        return state_rules(plan, job)
    groups = math.gcd(*(math.gcd(mixer.state_heads, mixer.state_groups) for mixer in mixers))
    context = read_method(CONTEXT_METHODS, plan.cp_method)
    shares = plan.tp if context.states else plan.tp * plan.cp
    return [
        *state_rules(plan, job),
        Rule(
            "state-heads-divide",
            divides(shares, groups),
            lambda: (
                f"tp {plan.tp:.0f}" if context.states else f"tp {plan.tp:.0f} · cp {plan.cp:.0f}",
                f"a divisor of the {groups} groups of heads of layers that pass a state along the sequence",
                f"{'tp' if context.states else 'tp · cp'} {nearest_divisors(shares, groups)}",
            ),
        ),
        Rule(
            "states-train-whole",
            job.workload.method in ("full", "projector") or (case.method.adapts and _adapts_mixers(case)),
            lambda: (
                f"method {job.workload.method}",
                "full: adapters beside such layers that pass a state along the sequence are not priced",
                "full",
            ),
        ),
    ]


def state_rules(plan: Plan, job: Job) -> list[Rule]:
    """Return the rules that states pass from rank to rank where tokens only scale them, and in no runtime.

    References
    ----------
    .. [1] Megatron-LM d98e8a64 has ``mamba_context_parallel.py`` and ``gated_delta_net`` alone, which
       exchange heads; Megatron-Bridge 067f987d, torchtitan b5bcd76c and nanotron 2411b022 name no other.
    """
    context = read_method(CONTEXT_METHODS, plan.cp_method)
    if context.states is None:
        return []
    turned = sorted({mixer.kind for mixer in job.model.recurrents if not mixer.only_decays})
    found = " and ".join(turned) + " layers" if turned else "no layer that passes a state along"
    return [
        Rule(
            "states-can-be-merged",
            np.less_equal(plan.cp, 1) | (bool(job.model.recurrents) and not turned),
            lambda: (
                f"cp method {context.name} with {found}",
                "linear layers whose states only decay (mamba2, lightning)",
                context.name.rpartition("+")[0],
            ),
        ),
        Rule(
            "states-have-a-runner",
            np.less_equal(plan.cp, 1),
            lambda: (
                f"cp method {context.name}",
                f"a method that a runtime has: none passes on states by {context.name.rpartition('+')[2]}",
                context.name.rpartition("+")[0],
            ),
        ),
    ]


def shortcut_rules(job: Job) -> list[Rule]:
    """Return the rule that no layer has experts that compute nothing, or on a shortcut: no runtime has them.

    References
    ----------
    .. [1] Meituan, "LongCat-Flash Technical Report," arXiv:2509.01322: trained with a program of its own.
       Megatron-LM d98e8a64, Megatron-Bridge 067f987d, torchtitan b5bcd76c and nanotron name neither kind.
    """
    kinds = job.model.expert_kinds
    found = [
        *["experts that compute nothing"] * any(ffn.zero_experts for ffn in kinds),
        *["experts on a shortcut"] * any(ffn.shortcut for ffn in kinds),
    ]
    return [
        Rule(
            "experts-have-a-runner",
            not found,
            lambda: (" and ".join(found), "experts that a runtime builds: none has these", "another model"),
        )
    ]


def forward_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rule that training without gradients has one pass in a step, and one stage, as priced."""
    if not case.method.forwards:
        return []
    return [
        Rule(
            "forward-passes-alone",
            np.equal(plan.num_microbatches, 1) & np.equal(plan.pp, 1),
            lambda: (
                f"{case.method.name} with pp {plan.pp:g} and {plan.num_microbatches:g} passes of a step",
                "pp 1 and one pass: weights move once to either side",
                f"micro-batch {plan.micro_batch * plan.num_microbatches:g}",
            ),
        )
    ]


def nodes_rule(job: Job) -> Rule:
    """Return the rule that launchers set: every node starts as many ranks, or there is one node."""
    per_node = job.hardware.pool.gpus_per_node
    low = job.gpus // per_node * per_node
    return Rule(
        "nodes-are-whole",
        job.gpus <= per_node or job.gpus % per_node == 0,
        lambda: (
            f"{job.gpus} accelerators on nodes of {per_node}",
            f"whole nodes of {per_node}, since every node starts as many ranks",
            f"{low} or {low + per_node}",
        ),
    )


def _precision_rule(case: Case) -> Rule:
    accelerator, precision = case.pool.accelerator, case.precision
    known = [name for name in accelerator.peak if name in case.kernels.gemm]
    return Rule(
        "precision-has-units",
        precision.peak in accelerator.peak and precision.linear in case.kernels.gemm,
        lambda: (f"precision {precision.name} on {accelerator.name}", f"one of {', '.join(known)}", known[0]),
    )


MOST_COPIED_PASSES = 200_000
"""Passes of a step up to which copies to the host are played beside them: some seconds. [-]"""


def hosting_rules(plan: Plan, case: Case) -> list[Rule]:
    """Return the rules of a schedule that sends activations to the host: it alone does, and is played."""
    if not case.schedule.hosts:
        return []
    passes = 3.0 * plan.pp * plan.vpp * plan.num_microbatches
    return [
        Rule(
            "one-way-to-host",
            not case.offload.layers,
            lambda: (
                f"offload {plan.offload} with schedule {plan.schedule}",
                "a schedule that leaves activations on the device, or no offload of activations beside it",
                "none",
            ),
        ),
        Rule(
            "copies-can-be-played",
            passes <= MOST_COPIED_PASSES,
            lambda: (
                f"{float(passes):,.0f} passes of a step whose copies to the host are played",
                f"at most {MOST_COPIED_PASSES:,}",
                "fewer micro-batches, or another schedule",
            ),
        ),
    ]


def _pool_rule(case: Case) -> Rule:
    largest = case.pool.max_gpus
    return Rule(
        "pool-has-gpus",
        case.job.gpus <= largest,
        lambda: (
            f"{case.job.gpus} accelerators",
            f"at most {largest:.0f}, which the links join",
            f"{largest:.0f}",
        ),
    )


def _schedule_rule(plan: Plan, case: Case) -> Rule:
    schedule = case.schedule

    def tell() -> tuple[str, str, str]:
        degrees = plan.pipeline
        reasons = [*schedule.supports(*degrees)]
        if plan.num_microbatches < 1:
            reasons.append("at least one micro-batch on each data parallel rank")
        if plan.pp <= 1 < plan.vpp:
            reasons.append("one chunk on a rank without a pipeline")
        other = plain_schedule(plan.vpp)
        near = schedule.name == other and plan.num_microbatches < 1
        most = case.job.workload.global_batch // plan.micro_batch
        return f"schedule {schedule.name}", "; ".join(reasons), f"dp {most:,.0f}" if near else other

    legal = schedule.legal(plan.pp, plan.vpp, plan.num_microbatches)
    return Rule("schedule-runs", legal & ((plan.pp > 1) | np.equal(plan.vpp, 1)), tell)


def _heads_rule(plan: Plan, case: Case) -> Rule:
    holds: Mask = np.greater(plan.cp, 0)
    for mixer in (*case.model.attentions, *shared_cores(case.model)):
        heads = mixer.heads / plan.tp
        kv_heads = np.maximum(mixer.kv_heads / plan.tp, 1.0)
        shared = head_ranks(case, plan, mixer)
        holds = np.logical_and(holds, case.context.legal(plan.cp, heads, kv_heads, shared))
    name = case.context.name
    wanted = "a cp that divides the heads of a rank"
    if case.context.heads_by is not None:
        wanted = "several groups of several ranks that divide the heads of a rank, each on fast links"
    return Rule(
        "context-splits-heads",
        np.logical_or(holds, plan.cp <= 1),
        lambda: (f"cp {plan.cp:.0f} by {name}, tp {plan.tp:.0f}", wanted, "ring"),
    )


def _shards_rule(plan: Plan) -> Rule:
    ranks = plan.dp * plan.cp
    return Rule(
        "shards-divide",
        divides(plan.zero_shards, ranks) & (plan.zero > 0 or np.equal(plan.zero_shards, 1)),
        lambda: (
            f"zero_shards {plan.zero_shards:.0f}, zero {plan.zero}",
            f"a divisor of dp · cp = {ranks:.0f}" if plan.zero else "1, since zero 0 shards nothing",
            f"{ranks:.0f}" if plan.zero else "1",
        ),
    )


def _sequence_rule(plan: Plan, case: Case) -> Rule:
    seq = case.workload.seq_len
    parts = np.where(plan.cp > 1, 2 * plan.cp, 1.0) * (plan.tp if case.sequence_parallel else 1.0)
    return Rule(
        "sequence-divides",
        divides(parts, seq),
        lambda: (
            f"sequence {seq} over tp {plan.tp:.0f}, cp {plan.cp:.0f}",
            f"a multiple of {parts:.0f}",
            f"{max(1, seq // int(parts)) * int(parts)}",
        ),
    )
