"""Traits that switch one more part of Megatron-core on, and the plans that it refuses with them.

Read in Megatron-LM d98e8a64 (core 0.20): training/arguments.py `validate_args`; transformer_config.py and
model_parallel_config.py, whose fields are flags of the same name.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.dataclasses import dataclass
from planner.errors import UnsupportedPlan
from planner.inputs.model import LatentAttention, ModelSpec
from planner.plan import Plan
from planner.rules import Mask, Rule
from planner.runtimes.family import Job, Runtime
from planner.runtimes.megatron_lm.environment import BLACKWELL, HOPPER
from planner.runtimes.megatron_lm.expert_choices import expert_rules
from planner.runtimes.megatron_lm.offload import activation_layers, module_graph_rule, optimizer_share
from planner.runtimes.megatron_lm.rank_order import order_rule
from planner.runtimes.megatron_lm.recompute import granularity
from planner.runtimes.settings import Changes, Settings, Value
from planner.runtimes.traits import Traits
from planner.techniques.settings.expert_dispatcher import sends_by_hybrid_ep

SIXTEEN_BIT_AT_REST: Final = ("bf16", "fp16", "fp8-block")
"""Precisions that are priced with a 16-bit weight at rest whatever is asked."""

CORE_CHOICES: Final[Settings] = {
    "graphed": ("router", "attention", "passes"),
    "launch_blocking": (True,),
    "low_bit_head": ("mxfp8",),
    "low_bit_weights": ("alone",),
    "operator_fuser": (True,),
    "overlaps_experts": (True,),
    "overlaps_shared_expert": (True,),
    "precision_aware": (True,),
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
    "operator_fuser": Switch(("--use-transformer-engine-op-fuser",), "0.18"),
    "precision_aware": Switch(("--use-precision-aware-optimizer",)),
    "stages_inside": Switch(("--use-tp-pp-dp-mapping",)),
    "overlaps_experts": Switch(("--overlap-moe-expert-parallel-comm", "--delay-wgrad-compute")),
    "overlaps_shared_expert": Switch(("--moe-shared-expert-overlap",)),
    "static_experts": Switch(("--moe-expert-capacity-factor", "1.0", "--moe-pad-expert-input-to-capacity")),
    "tp_exposed": Switch(("--tp-comm-overlap",)),
}
"""Trait to what starts it; releases are all 0.NN.

Weight gradients are delayed where messages of experts are overlapped: so do all recipes that overlap
(`bridge_recipes.txt`), whose runs stand behind the price.
"""

GRAPH_MODULES: Final = {
    "router": ("moe_router", "moe_preprocess"),
    "attention": ("attn",),
    "mamba2": ("mamba",),
}
"""Parts of a layer that a graph holds, by Megatron-core's names; with experts the router's come last."""

GRAPHS_SINCE: Final = "0.20"
"""Release whose flags for graphs are written here."""

STATIC_SHAPES: Final[dict[str, object]] = {
    "moe_expert_rank_capacity_factor": 1.5,
    "moe_paged_stash": True,
    "moe_paged_stash_buffer_size_factor_cuda": 1.2,
    "moe_paged_stash_buffer_size_factor_cpu": 1.0,
    "moe_pad_experts_for_cuda_graph_inference": True,
    "moe_shared_expert_overlap": False,
    "use_transformer_engine_op_fuser": True,
}
"""What experts need under a graph of all passes: buffers of a fixed size. A step whose tokens do not fit is
run again without (core/transformer/moe/paged_stash.py, `PagedStashRunner`). Values as Megatron-Bridge's
recipes have them (perf_recipes/qwen/common.py of 067f987d)."""


WEIGHTS_ALONE: Final = {
    "fp8": ("--fp8-param-gather",),
    "mxfp8": ("--fp8-param-gather", "--reuse-grad-buf-for-mxfp8-param-ag"),
    "nvfp4": ("--fp4-param-gather",),
}
"""Flags that keep weights in low bits alone, by precision; other fp8 recipes have those of fp8."""


def choice_rules(plan: Plan, job: Job, runtime: Runtime) -> list[Rule]:
    """Return the rules on what is switched on beside a plan or a batch of plans.

    A release for which no files are written is priced as its recipes were, whatever they switched on; how its
    weights rest says what they may be sharded with all the same.
    """
    traits, rules = runtime.traits, list[Rule]()
    if traits.low_bit.weights == "alone" and job.workload.precision not in SIXTEEN_BIT_AT_REST:
        rules.append(_weights_rule(plan, job))
    if runtime.release and runtime.release not in runtime.versions:
        return rules
    if not traits.kernels.fused_weight_gradient:
        rules.append(_apart_rule(plan))
    latent = any(isinstance(one, LatentAttention) for one in job.model.attentions)
    if latent and not traits.kernels.fused_rope:
        rules.append(LATENT_ROPE)
    if job.workload.precision == "fp16":
        rules.append(_half_gradients_rule(traits))
    if traits.pipeline.stages_inside:
        rules.append(order_rule(plan, job))
    if job.model.expert_kinds:
        rules += expert_rules(plan, job, traits)
    release = runtime.release or runtime.versions[0]
    if traits.kernels.graphed:
        rules += [*_graph_rules(plan, job, traits), module_graph_rule(plan, traits.kernels.graphed, release)]
    return rules


def release_rules(plan: Plan, job: Job, runtime: Runtime, plain: Traits) -> list[Rule]:
    """Return the rule that a release of Megatron-LM has the flags of all that is switched on."""
    release = runtime.release or runtime.versions[0]
    if release not in runtime.versions:
        return []
    new = [
        name
        for name in (*SWITCHES, "graphed")
        if runtime.traits.value_of(name) != plain.value_of(name) and release < _since(name)
    ]
    return [
        Rule(
            "release-has-flags",
            not new,
            lambda: (
                f"{', '.join(new)} with release {release}",
                "a release that has the flags",
                f"release {max(map(_since, new))}",
            ),
        )
    ]


def _since(trait: str) -> str:
    return GRAPHS_SINCE if trait == "graphed" else SWITCHES[trait].since


LATENT_ROPE: Final = Rule(
    "latent-attention-rotates-apart",
    False,
    lambda: (
        "fused_rope false with latent attention",
        "nothing: its rotation is never fused in these files, and is priced as it was measured",
        "--set fused_rope=true",
    ),
)
"""Megatron-Bridge's bridges of DeepSeek and Kimi set apply_rope_fusion to False, for all recipes."""


def _apart_rule(plan: Plan) -> Rule:
    """Return the rule that Megatron-FSDP, which adds weight gradients apart, is not asked to."""
    return Rule(
        "fsdp-adds-gradients-apart",
        plan.zero < 2,
        lambda: (
            f"fused_weight_gradient false with zero {plan.zero}",
            "nothing: Megatron-FSDP adds weight gradients apart by itself, and is priced as it was measured",
            "--set fused_weight_gradient=true",
        ),
    )


def _half_gradients_rule(traits: Traits) -> Rule:
    """Return the rule that gradients in fp16 are reduced in fp32 or fp16: both switches name bf16."""
    kept, sent = traits.optimizer.gradient_dtype, traits.optimizer.reduce_dtype
    return Rule(
        "no-bf16-gradients-in-fp16",
        "bf16" not in (kept, sent),
        lambda: ("gradients in bf16 with precision fp16", "fp32", "--set gradient_dtype=fp32"),
    )


def _weights_rule(plan: Plan, job: Job) -> Rule:
    precision, work = job.workload.precision, job.workload
    stage = work.method != "full" or (plan.zero == 1 if precision == "nvfp4" else plan.zero >= 1)
    hosted = optimizer_share(plan.offload) and precision != "fp8-delayed"
    return Rule(
        "low-bit-weights-alone",
        stage and not hosted,
        lambda: (
            f"low-bit weights alone in {precision} with zero {plan.zero}, offload {plan.offload}",
            "a distributed optimizer (zero 1) on the device, or in precision fp8-delayed",
            "zero 1" if not stage else "--precision fp8-delayed, or --set low_bit_weights=beside",
        ),
    )


def _graph_rules(plan: Plan, job: Job, traits: Traits) -> list[Rule]:
    """Return what graphs cannot hold."""
    wanted, whole = granularity(plan.recompute), traits.kernels.graphed == "passes"
    experts = bool(job.model.expert_kinds)
    routed = experts and traits.kernels.graphed == "router"
    inside = wanted is not None and (wanted.whole or (routed and "moe" in wanted.modules))
    nearest = "--set cuda_graphs=none"
    rules = [
        Rule(
            "graphs-hold-recompute",
            whole or not inside,
            lambda: (
                f"graphs of {traits.kernels.graphed} with recompute {plan.recompute}",
                "parts of them",
                nearest,
            ),
        ),
        Rule(
            "graphs-keep-places",
            plan.zero <= 1 and not activation_layers(plan.offload),
            lambda: (
                f"CUDA graphs with zero {plan.zero}, offload {plan.offload}",
                "weights and activations that stay: zero 0 or 1, no activations of layers on the host",
                nearest,
            ),
        ),
    ]
    if whole and experts:
        rules.append(_static_shapes_rule(job, traits, np.less_equal(plan.ep, 1)))
    return rules


def _static_shapes_rule(job: Job, traits: Traits, single: Mask) -> Rule:
    """Return what experts need under a graph of all passes: a fused kernel for buffers of a fixed size."""
    device, precision = job.hardware.pool.accelerator, job.workload.precision
    new = device.compute_capability is not None and device.compute_capability >= BLACKWELL
    return Rule(
        "graph-of-experts-has-static-shapes",
        np.logical_not(single) & (precision == "mxfp8" and new and traits.experts.dispatcher == "fused"),
        lambda: (
            f"a graph of all passes with experts in {precision} on {device.name}",
            "expert parallelism by the fused dispatcher, mxfp8 on Blackwell: buffers of a fixed size",
            "--set cuda_graphs=attention",
        ),
    )


def fused_backend(job: Job, graphed: object) -> str:
    """Return whose fused kernels send tokens, as Megatron-LM names them."""
    return "hybridep" if sends_by_hybrid_ep(job.hardware.pool, graphed) else "deepep"


def choice_flags(plan: Plan, job: Job, changes: Changes, version: str) -> list[str]:
    """Return the flags of the switches that changed traits ask for.

    Raises `UnsupportedPlan` if a release has no such flag.
    """
    wanted = {name: SWITCHES[name] for name in SWITCHES if name in changes}
    if "graphed" in changes:
        wanted["graphed"] = Switch(_graph_flags(plan, job, str(changes["graphed"])), GRAPHS_SINCE)
    if "low_bit_weights" in changes:
        wanted["low_bit_weights"] = Switch(WEIGHTS_ALONE.get(job.workload.precision, WEIGHTS_ALONE["fp8"]))
    for name, switch in wanted.items():
        if version < switch.since:
            raise UnsupportedPlan(
                f"{name} {_word(changes[name])} with release {version}, which has no {switch.flags[0]}; "
                f"nearest: release {switch.since}"
            )
    return list(dict.fromkeys(flag for switch in wanted.values() for flag in switch.flags))


def _graph_flags(plan: Plan, job: Job, graphed: str) -> tuple[str, ...]:
    if graphed == "passes":
        static = _static_flags() if job.model.expert_kinds else ()
        return ("--cuda-graph-impl", "full_iteration", *static)
    modules = graph_modules(plan, job.model, graphed)
    return ("--cuda-graph-impl", "transformer_engine", "--cuda-graph-modules", *modules)


def graph_modules(plan: Plan, model: ModelSpec, graphed: str) -> list[str]:
    """Return the parts of a layer that graphs hold: of experts that run again the router is outside."""
    names = ["attention", *{mixer.kind: 0 for mixer in model.recurrents}] if graphed == "attention" else []
    wanted = granularity(plan.recompute)
    apart = wanted is not None and "moe" in wanted.modules
    names += ["router"] if model.expert_kinds and not apart else []
    return [module for name in names for module in GRAPH_MODULES.get(name, ())]


def _static_flags() -> list[str]:
    flags: list[str] = []
    for name, value in STATIC_SHAPES.items():
        if value is not False:
            flags += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return flags


def choice_variables(plan: Plan, job: Job, changes: Changes, overlaps: bool) -> dict[str, str]:
    """Return the variables that a scalar plan's changed traits ask for, and overlap of tensor parallelism.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``training/arguments.py``: NCCL's registration of graphs breaks graphs of
       layers beside segments that grow.
    .. [2] TransformerEngine d0067d0d, ``transformer_engine/pytorch/module/base.py``, ``initialize_ub``:
       raises where devices have no multicast, unless ``UB_SKIPMC=1``.
    .. [3] DeepEP 94a9f8f6, ``docs/Hybrid-EP_Implementation.md``, section 9.2, and Megatron-Bridge 067f987d,
       ``scripts/performance/utils/utils.py``: ranks that NVLink joins, which older builds do not find.
    """
    capability = job.hardware.pool.accelerator.compute_capability
    variables = {"CUDA_LAUNCH_BLOCKING": "1"} if changes.get("launch_blocking") else {}
    if changes.get("graphed"):
        variables["NCCL_GRAPH_REGISTER"] = "0"
    if overlaps and plan.tp > 1 and plan.sequence_parallel and capability is not None and capability < HOPPER:
        variables["UB_SKIPMC"] = "1"
    if changes.get("dispatcher") == "fused" and fused_backend(job, changes.get("graphed")) == "hybridep":
        variables |= _nvlink_domain(plan, job)
    return variables


def _nvlink_domain(plan: Plan, job: Job) -> dict[str, str]:
    """Return the variables that tell HybridEP which ranks of experts NVLink joins."""
    pool = job.hardware.pool
    joined, domain = pool.scaleup_domain > pool.gpus_per_node, pool.scaleup_domain
    ranks = int(plan.ep * plan.etp)
    return {
        "NUM_OF_HYBRID_EP_RANKS_PER_NVLINK_DOMAIN": str(
            max(most for most in range(1, domain + 1) if ranks % most == 0)
        ),
        "NVLINK_DOMAIN_SIZE": str(domain),
        "USE_MNNVL": str(int(joined)),
    }


def _word(value: Value) -> str:
    return str(value).lower()
