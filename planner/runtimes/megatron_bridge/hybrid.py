"""Hybrids on Megatron-Bridge: the pattern of Megatron-core's layers, in a provider of its own.

Read in Megatron-Bridge 067f987d, ``models/hybrid/hybrid_provider.py``, ``models/nemotronh`` and
``recipes/nemotronh``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.model import ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.megatron_bridge.code import Section
from planner.runtimes.megatron_lm.hybrid import is_hybrid, layer_pattern, main_layers

PROVIDER: Final = ("hybrid.hybrid_provider", "HybridModelProvider")
"""Module and class that build a hybrid."""

NOT_ITS_OWN: Final = (
    *("transformer_layer_spec", "moe_layer_freq", "pipeline_model_parallel_layout"),
    *("virtual_pipeline_model_parallel_size", "mtp_enabled"),
)
"""Fields of other providers, or of layers that no pattern puts together."""


def as_hybrid(fields: Section, plan: Plan, model: ModelSpec) -> Section:
    """Return the fields of a model as those of a hybrid, where it is one."""
    if not is_hybrid(model):
        return fields
    pattern = layer_pattern(plan, model)
    own: Section = {"num_layers": len(main_layers(pattern)), "hybrid_layer_pattern": pattern}
    mixer = next((mixer for mixer in model.recurrents if isinstance(mixer, Mamba2)), None)
    if mixer is not None:
        own |= {
            "mamba_num_heads": mixer.heads,
            "mamba_head_dim": mixer.head_dim,
            "mamba_num_groups": mixer.groups,
            "mamba_state_dim": mixer.state,
            "mamba_chunk_size": mixer.chunk,
        }
    return {name: value for name, value in fields.items() if name not in NOT_ITS_OWN} | own


def hybrid_rules(plan: Plan, model: ModelSpec) -> list[Rule]:
    """Return the rules of a hybrid: no virtual stages, and layers in every stage."""
    if not is_hybrid(model):
        return []
    layers, empty = model.num_layers, 0 in (plan.stage_layers or (1,))
    return [
        Rule(
            "hybrid-without-virtual-stages",
            np.equal(plan.vpp, 1),
            lambda: (f"vpp {plan.vpp:g}", "vpp 1: Bridge's hybrid model takes no virtual stage", "vpp 1"),
        ),
        Rule(
            "hybrid-stages-have-layers",
            np.less_equal(plan.pp, layers) & (not empty),
            lambda: (
                f"pp {plan.pp:g} stages",
                f"stages that all hold some of {layers} layers",
                f"pp {min(int(plan.pp), layers)}",
            ),
        ),
    ]
