"""What Megatron-core keeps in host memory: the optimizer's states, or saved tensors of some layers.

Read in Megatron-LM d98e8a64 (core 0.20), transformer_config.py `TransformerConfig.__post_init__`.
"""

from __future__ import annotations

import numpy as np

from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
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


def offload_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules on what goes to the host: saved tensors only of layers that nothing else moves."""
    layers = activation_layers(plan.offload)
    known = Rule(
        "offload-offered",
        bool(layers) or plan.offload in ("none", "optimizer"),
        lambda: (f"offload {plan.offload}", "none, optimizer, or activations:N with N layers", "none"),
    )
    if not layers:
        return [known]
    return [
        known,
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


def activation_flags(plan: Plan) -> list[str]:
    """Return the flag of the layers whose saved tensors go to the host."""
    layers = activation_layers(plan.offload)
    return ["--cpu-offloading-num-layers", str(layers)] if layers else []
