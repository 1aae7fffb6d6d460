"""What Megatron-core can build of a model, and why not where it cannot.

A GPT model of Megatron-core has one shape of attention, one dense and one expert feed-forward, two norms a
layer, and one switch for all biases; layers may differ in window, rotary positions and dense or expert
feed-forward alone.
"""

from __future__ import annotations

from typing import Literal

from planner.dataclasses import dataclass
from planner.inputs.model import Attention, Block, DenseFfn, Experts, LatentAttention, ModelSpec, Recurrent
from planner.inputs.variants import variant_texts
from planner.remembered import remembered
from planner.runtimes.megatron_lm.hybrid import hybrid_obstacles, is_hybrid
from planner.runtimes.offered import (
    ACTIVATION_WEIGHTS,
    BLOCK_INDEXER,
    BOTH_WAYS,
    CROSS,
    DISTANCES,
    HEAD_PRODUCT,
    LAYER_INPUTS,
    OWN,
    TOKEN_TYPES,
)

Biases = Literal["none", "qkv", "all", "mixed"]


@dataclass(frozen=True)
class Architecture:
    """The model as Megatron-core's flags see it."""

    mixer: Attention | LatentAttention
    """Attention of the first layer that has it, which all share but for window and rotary positions; of a
    model without any, one head as wide as the model."""
    dense: DenseFfn | None
    experts: Experts | None
    """The two kinds of feed-forward, where the model has them."""
    biases: Biases
    """Which linear layers have a bias."""
    window: int | None
    """Tokens that a windowed layer sees, itself included."""
    windowed: tuple[bool, ...]
    rotary: tuple[bool, ...]
    expert: tuple[bool, ...]
    """For each layer, whether it has a window, rotary positions, experts."""
    recurrent: Recurrent | None = None
    """The mixer of layers that pass a state along, where there are any."""
    linear: tuple[bool, ...] = ()
    """For each layer, whether it is one of these."""

    @property
    def gated(self) -> bool:
        """Whether the feed-forward is gated."""
        ffn = self.dense or self.experts
        return ffn is not None and ffn.gated

    @property
    def sinks(self) -> bool:
        """Whether attention has learned sinks."""
        return isinstance(self.mixer, Attention) and self.mixer.sinks


def _block_biases(block: Block) -> Biases:
    mixer, fed = block.attention, block.ffn is not None and block.ffn.bias
    output = mixer is not None and mixer.output_bias
    qkv = mixer.qkv_bias if isinstance(mixer, Attention) else output
    if not (qkv or output or fed):
        return "none"
    if qkv and not (output or fed):
        return "qkv"
    return "all" if qkv and output and fed else "mixed"


def _rotary(model: ModelSpec, block: Block) -> bool:
    """Whether a layer's heads turn by position; one without attention is like those that have it."""
    if isinstance(block.mixer, Attention):
        return block.mixer.rotary
    return all(mixer.rotary for mixer in model.attentions if isinstance(mixer, Attention))


def _attention(model: ModelSpec) -> Attention | LatentAttention:
    found = (mixer for name in model.layers if (mixer := model.blocks[name].attention))
    return next(found, Attention(heads=1, kv_heads=1, head_dim=model.hidden, rotary=False))


def architecture(model: ModelSpec) -> Architecture:
    """Return the model as Megatron-core's flags see it; `obstacles` says what that leaves out."""
    blocks = [model.blocks[name] for name in model.layers]
    dense = [block.ffn for block in blocks if isinstance(block.ffn, DenseFfn)]
    experts = [block.ffn for block in blocks if isinstance(block.ffn, Experts)]
    windows = [block.attention.window if block.attention else None for block in blocks]
    biases = {_block_biases(block) for block in blocks}
    return Architecture(
        mixer=_attention(model),
        dense=dense[0] if dense else None,
        experts=experts[0] if experts else None,
        biases=biases.pop() if len(biases) == 1 else "mixed",
        window=next((window for window in windows if window is not None), None),
        windowed=tuple(window is not None for window in windows),
        rotary=tuple(_rotary(model, block) for block in blocks),
        expert=tuple(isinstance(block.ffn, Experts) for block in blocks),
        recurrent=next((block.recurrent for block in blocks if block.recurrent), None),
        linear=tuple(block.recurrent is not None for block in blocks),
    )


def _mixer_obstacles(model: ModelSpec, arch: Architecture) -> list[str]:
    mixers = model.attentions
    shapes = {mixer.model_copy(update={"window": None, "rotary": True}).model_dump_json() for mixer in mixers}
    windows = {mixer.window for mixer in mixers} - {None}
    latent = isinstance(arch.mixer, LatentAttention)
    kind = arch.mixer.qk_norm if isinstance(arch.mixer, Attention) else "none"
    found = {
        "layers whose attention differs in shape": len(shapes) > 1,
        "windows of several sizes": len(windows) > 1,
        DISTANCES: any(isinstance(mixer, Attention) and mixer.distances for mixer in mixers),
        BLOCK_INDEXER: any(isinstance(mixer, Attention) and mixer.indexer for mixer in mixers),
        "attention in chunks": any(isinstance(mixer, Attention) and mixer.chunked for mixer in mixers),
        "values of their own width": not latent
        and any(mixer.value_head_dim != mixer.qk_head_dim for mixer in mixers),
        "a gate for each head of attention": any(
            isinstance(mixer, Attention) and mixer.head_gate for mixer in mixers
        ),
        "keys that are also values, or those of an earlier layer": any(
            isinstance(mixer, Attention) and not mixer.makes_values for mixer in mixers
        ),
        "a window on latent attention": bool(windows) and latent,
        "query/key norms over all heads at once": kind == "full",
        "biases of queries and values alone": any(
            isinstance(mixer, Attention) and not mixer.key_bias for mixer in mixers
        ),
        "query/key norms with weights of each head or biases": kind in ("each", "head-bias"),
        **_linear_obstacles(model, arch),
        "rotary and learned positions together": model.learned_positions and any(arch.rotary) and not latent,
    }
    return [text for text, there in found.items() if there]


def _linear_obstacles(model: ModelSpec, arch: Architecture) -> dict[str, bool]:
    """Say what speaks against layers that pass a state along, and against a layer of one part.

    References
    ----------
    .. [1] Megatron-LM d98e8a64, ``megatron/core/models/gpt/experimental_attention_variant_module_specs.py``.
    """
    kinds = {mixer.kind for mixer in model.recurrents}
    strange = ", ".join(sorted(kinds - {"gated-delta"}))
    return {
        f"{strange} layers": bool(strange),
        "gated delta nets of several shapes": len(set(model.recurrents)) > 1 and not strange,
        "no attention beside layers that pass a state along": bool(kinds) and not model.attentions,
        "a window beside layers that pass a state along": bool(kinds) and arch.window is not None,
    }


def _ffn_obstacles(model: ModelSpec, arch: Architecture) -> list[str]:
    ffns = model.ffns
    experts = [ffn for ffn in ffns if isinstance(ffn, Experts)]
    all_biased = arch.biases == "all"
    found = {
        ACTIVATION_WEIGHTS: any(isinstance(ffn, DenseFfn) and ffn.activation_weights for ffn in ffns),
        "dense layers of several widths": len({ffn.inner for ffn in ffns if isinstance(ffn, DenseFfn)}) > 1,
        "experts of several shapes": len({ffn.model_dump_json() for ffn in experts}) > 1,
        "gated and plain feed-forward layers together": len({ffn.gated for ffn in ffns}) > 1,
        "biases in some linear layers only": arch.biases == "mixed",
        "biased experts beside shared experts": all_biased and any(ffn.shared_inner for ffn in experts),
        "biased experts in a latent space": all_biased and any(ffn.latent for ffn in experts),
        "biased experts with an unbiased router": all_biased and any(not ffn.router_bias for ffn in experts),
    }
    return [text for text, there in found.items() if there]


def obstacles(model: ModelSpec, arch: Architecture) -> tuple[str, ...]:
    """Return what Megatron-core cannot build of the model; empty where it can build all."""
    extras = any(block.extras for block in model.blocks.values())
    own = (
        *variant_texts(model.variants),
        *[OWN] * extras,
        *[LAYER_INPUTS] * (model.layer_inputs is not None),
        *[HEAD_PRODUCT] * (model.head_product is not None),
        *[TOKEN_TYPES] * bool(model.token_types),
        *[BOTH_WAYS] * model.fills_masks,
        *[CROSS] * model.crosses,
    )
    if is_hybrid(model):
        bare = ["no norm before the head"] * (not model.final_norm)
        return (*own, *bare, *hybrid_obstacles(model), *_ffn_obstacles(model, arch))
    norms = {model.blocks[name].norms for name in model.layers}
    most = max(norms)
    found = {
        f"{most} norm{'s' * (most != 1)} in a layer, where Megatron-core has 2": norms != {2},
        "layer norms without a bias": model.norm == "layernorm" and not model.norm_bias,
        "RMS norms with a bias": model.norm == "rmsnorm" and model.norm_bias,
        "no norm before the head": not model.final_norm,
        "an extra prediction layer that is unlike the last layer": (
            model.prediction is not None
            and model.blocks[model.prediction.block] != model.blocks[model.layers[-1]]
        ),
    }
    general = [text for text, there in found.items() if there]
    return own + tuple(general + _mixer_obstacles(model, arch) + _ffn_obstacles(model, arch))


@remembered(most=64)
def known_architecture(model: ModelSpec) -> tuple[Architecture, tuple[str, ...]]:
    """Return the architecture and its obstacles; a search asks for those of one model some hundred times."""
    arch = architecture(model)
    return arch, obstacles(model, arch)
