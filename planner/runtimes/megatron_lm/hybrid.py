"""Megatron-core's hybrid models: layers of one part each, in a pattern of symbols with the stages' borders.

A block with a mixer and a feed-forward is two layers there. Read in Megatron-LM d98e8a64,
``megatron/core/models/hybrid/hybrid_layer_allocation.py``, ``hybrid_layer_specs.py``,
``megatron/core/ssm/mamba_mixer.py`` and ``megatron/training/arguments.py``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.model import Attention, Block, DenseFfn, ModelSpec
from planner.plan import Plan
from planner.rules import Rule
from planner.runtimes.family import Runtime
from planner.runtimes.offered import stage_layers

SINCE: Final = "0.20"
"""Release whose flags these are."""

PROGRAM: Final = "pretrain_hybrid.py"
MTP: Final = "/"
"""What stands before the symbols of each prediction layer."""
SPEC: Final = ("megatron.core.models.hybrid.hybrid_layer_specs", "hybrid_stack_spec")
"""Module and name of the layers that a pattern puts together."""


def is_hybrid(model: ModelSpec) -> bool:
    """Whether Megatron-core builds a model as a hybrid: state spaces, or layers of one part."""
    return not model.is_whole or any(isinstance(mixer, Mamba2) for mixer in model.recurrents)


def symbols(block: Block) -> str:
    """Return the symbols of a block, one for each part."""
    mixed = "" if block.mixer is None else "M" if block.recurrent else "*"
    fed = "" if block.ffn is None else "-" if isinstance(block.ffn, DenseFfn) else "E"
    return mixed + fed


def layer_pattern(plan: Plan, model: ModelSpec) -> str:
    """Return the argument of ``--hybrid-layer-pattern`` for a scalar plan, a border after each stage."""
    parts, first = [], 0
    for layers in stage_layers(plan, model):
        parts.append("".join(symbols(model.blocks[name]) for name in model.layers[first : first + layers]))
        first += layers
    return MTP.join(["|".join(parts), *predicted(model)])


def predicted(model: ModelSpec) -> list[str]:
    """Return the symbols of each prediction layer, of one that is repeated as often as it runs."""
    if model.prediction is None:
        return []
    return [symbols(model.blocks[model.prediction.block])] * model.prediction.layers


def main_layers(pattern: str) -> str:
    """Return the symbols of a pattern without borders and prediction layers.

    Examples
    --------
    >>> main_layers("M*|M-/*E/*E")
    'M*M-'
    """
    return pattern.partition(MTP)[0].replace("|", "")


def hybrid_obstacles(model: ModelSpec) -> tuple[str, ...]:
    """Return what a hybrid of Megatron-core cannot have of a model."""
    mixers = [mixer for mixer in model.recurrents if isinstance(mixer, Mamba2)]
    others = {mixer.kind for mixer in model.recurrents} - {"mamba2"}
    parts = {len(symbols(block)) - block.norms for block in model.blocks.values()}
    plain = all(isinstance(mixer, Attention) and _is_plain(mixer) for mixer in model.attentions)
    found = {
        f"{', '.join(sorted(others))} layers": bool(others),
        "a state space beside attention in one layer": any(one.beside for one in model.blocks.values()),
        "a state space without a norm of its result": any(not mixer.gated_norm for mixer in mixers),
        "state spaces of several shapes": len(set(mixers)) > 1,
        "a state space with a biased projection, an unbiased convolution or one wider than 4": any(
            mixer.bias or not mixer.conv_bias or mixer.conv_kernel != 4 for mixer in mixers
        ),
        "another number of norms than a layer has parts": parts != {0},
        "attention with norms, sinks, gate or window in a hybrid, or latent attention": not plain,
        "attention with rotary positions in some layers only": len({_turns(m) for m in model.attentions}) > 1,
        "learned positions in a hybrid": model.learned_positions,
    }
    return tuple(text for text, there in found.items() if there)


def _is_plain(mixer: Attention) -> bool:
    return (
        mixer.qk_norm == "none"
        and not (mixer.sinks or mixer.gate_width or mixer.window)
        and mixer.makes_values
    )


def _turns(mixer: object) -> bool:
    return isinstance(mixer, Attention) and mixer.rotary


def hybrid_flags(plan: Plan, model: ModelSpec) -> list[str]:
    """Return the pattern of a hybrid's layers and the shape of its state spaces."""
    flags = ["--spec", *SPEC, "--hybrid-layer-pattern", layer_pattern(plan, model)]
    mixer = next((mixer for mixer in model.recurrents if isinstance(mixer, Mamba2)), None)
    if mixer is None:
        return flags
    return [
        *flags,
        *("--mamba-num-heads", str(mixer.heads), "--mamba-head-dim", str(mixer.head_dim)),
        *("--mamba-num-groups", str(mixer.groups), "--mamba-state-dim", str(mixer.state)),
    ]


def hybrid_rules(plan: Plan, model: ModelSpec, runtime: Runtime) -> list[Rule]:
    """Return the rules of a hybrid: a release that has its flags, and layers in every stage."""
    if not is_hybrid(model):
        return []
    release = runtime.release or runtime.versions[0]
    layers, empty = model.num_layers, 0 in (plan.stage_layers or (1,))
    return [
        Rule(
            "release-has-hybrids",
            release >= SINCE,
            lambda: (f"a hybrid model with release {release}", f"release {SINCE} or later", SINCE),
        ),
        Rule(
            "hybrid-stages-have-layers",
            np.less_equal(plan.pp * plan.vpp, layers) & (not empty),
            lambda: (
                f"pp {plan.pp:g} · vpp {plan.vpp:g} stages",
                f"stages that all hold some of {layers} layers",
                f"pp {min(int(plan.pp), layers)}",
            ),
        ),
    ]
