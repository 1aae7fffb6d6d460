"""What Megatron-core keeps in host memory: optimizer states, saved tensors of layers, or inputs of modules.

Read in Megatron-LM d98e8a64 (core 0.20), transformer_config.py `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.megatron_lm.hybrid import is_hybrid
from planner.techniques.offload.family import share_of
from planner.units import is_whole


def activation_layers(offload: str) -> int:
    """Return N of ``activations:N``; 0 where no activations are offloaded.

    Examples
    --------
    >>> activation_layers("activations:20"), activation_layers("optimizer")
    (20, 0)
    """
    name, _, argument = offload.partition(":")
    return int(argument) if name == "activations" and is_whole(argument) else 0


def offloaded_modules(offload: str) -> list[str]:
    """Return the modules of ``modules:core_attn+attn_proj``; none where no modules' inputs are offloaded.

    Examples
    --------
    >>> offloaded_modules("modules:core_attn+attn_proj"), offloaded_modules("activations:20")
    (['core_attn', 'attn_proj'], [])
    """
    name, _, argument = offload.partition(":")
    return argument.split("+") if name == "modules" else []


def optimizer_share(offload: str) -> float:
    """Return the share of the optimizer states that the host steps; 0 where none are offloaded.

    Examples
    --------
    >>> optimizer_share("optimizer"), optimizer_share("optimizer:40%"), optimizer_share("activations:20")
    (1.0, 0.4, 0.0)
    """
    name, _, argument = offload.partition(":")
    return (share_of(argument) or 1.0) if name == "optimizer" else 0.0


def offload_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules on what goes to the host: saved tensors only of layers that nothing else moves.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``transformer/transformer_block.py`` reads ``cpu_offloading``,
       ``models/hybrid/hybrid_block.py`` does not.
    """
    layers, modules = activation_layers(plan.offload), offloaded_modules(plan.offload)
    known = Rule(
        "offload-offered",
        bool(layers or modules or optimizer_share(plan.offload)) or plan.offload == "none",
        lambda: (
            f"offload {plan.offload}",
            "none, optimizer or a share of it, activations:N with N layers, or modules: and their names",
            "none",
        ),
    )
    if modules:
        return [known, *_module_rules(plan, model, modules)]
    if not layers:
        return [known]
    return [
        known,
        Rule(
            "activation-offload-without-hybrid",
            not is_hybrid(model),
            lambda: (
                f"offload {plan.offload} of a hybrid",
                "none: its stack of layers moves nothing",
                "none",
            ),
        ),
        Rule(
            "activation-offload-layers",
            layers < model.num_layers,
            lambda: (
                f"offload {plan.offload}",
                f"fewer than the {model.num_layers} layers",
                f"activations:{model.num_layers - 1}" if model.num_layers > 1 else "none",
            ),
        ),
        Rule(
            "activation-offload-without-pipeline",
            np.less_equal(plan.pp, 1),
            lambda: (f"offload {plan.offload} with pp {plan.pp:g}", "pp 1: one stage alone", "pp 1"),
        ),
        Rule(
            "activation-offload-without-recompute",
            plan.recompute == "none",
            lambda: (f"offload {plan.offload} with recompute {plan.recompute}", "no recompute", "none"),
        ),
    ]


EXPERT_MODULES: Final = {"expert_fc1", "moe_act"}


def _module_rules(plan: Plan, model: ModelSpec, modules: list[str]) -> list[Rule]:
    """Return the rules on modules whose inputs go to the host."""
    inside = EXPERT_MODULES.intersection(modules)
    whole = plan.recompute.startswith("full") or (
        inside and "moe" in plan.recompute.partition(":")[2].split("+")
    )
    return [
        Rule(
            "offload-attention-result-with-core",
            "attn_proj" not in modules or "core_attn" in modules,
            lambda: (
                f"offload {plan.offload}",
                "core_attn with attn_proj: its backward needs the result",
                "modules:core_attn+attn_proj",
            ),
        ),
        Rule(
            "offload-modules-in-model",
            not inside or bool(model.expert_kinds),
            lambda: (
                f"offload {plan.offload} without experts",
                "modules of dense layers: attn_norm, qkv_linear, core_attn, attn_proj, mlp_norm",
                "modules:core_attn+attn_proj",
            ),
        ),
        Rule(
            "offload-modules-that-are-kept",
            not whole,
            lambda: (
                f"offload {plan.offload} with recompute {plan.recompute}",
                "recompute of no layer, and of no experts whose inputs go to the host",
                "none",
            ),
        ),
    ]


def module_graph_rule(plan: Plan, graphed: object, release: str) -> Rule:
    """Return the rule that graphs capture whole modules whose inputs go to the host, and no more.

    Before 0.19 they captured no such module: graphs of attention left those of experts alone
    (``docs/user-guide/features/fine_grained_activation_offloading.md`` of core_v0.16.0 to core_v0.19.0).
    """
    modules = set(offloaded_modules(plan.offload))
    captured = modules & {"attn_norm", "mlp_norm"} if release >= CAPTURED_SINCE else modules - EXPERT_MODULES
    return Rule(
        "offload-modules-with-graphs",
        not modules or (graphed == "attention" and not captured),
        lambda: (
            f"offload {plan.offload} with graphs of {graphed}",
            f"graphs of attention and the router, no norms; before {CAPTURED_SINCE} experts' modules alone",
            "--set cuda_graphs=none",
        ),
    )


CAPTURED_SINCE: Final = "0.19"


def module_flags(plan: Plan) -> list[str]:
    """Return the flags of the modules whose inputs go to the host."""
    modules = offloaded_modules(plan.offload)
    return ["--fine-grained-activation-offloading", "--offload-modules", *modules] if modules else []


def activation_flags(plan: Plan) -> list[str]:
    """Return the flag of the layers whose saved tensors go to the host."""
    layers = activation_layers(plan.offload)
    return ["--cpu-offloading-num-layers", str(layers)] if layers else []
