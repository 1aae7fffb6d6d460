"""Architectures of transformers that are written by what is read back: the ``config.json`` must be the model.

Each type writes its keys in a file beside this; what is written is read by the importer, and taken where that
gives the same blocks and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isclose
from typing import Any, Final

from planner.deferred import deferred
from planner.errors import InputError
from planner.inputs.model import ModelSpec
from planner.inputs.numerics import said
from planner.remembered import remembered

with deferred():
    from planner.inputs import hf_config

Fields = dict[str, object]


@dataclass(frozen=True, eq=False)
class HubType:
    """One ``model_type``."""

    network: str
    layer: str
    """Classes of the causal language model and of one layer, the unit that is sharded and recomputed;
    Accelerate takes several names of layers with a comma between them."""
    may_be: Callable[[ModelSpec], bool]
    """Whether a model can be of the type, from a glance."""
    fields: Callable[[ModelSpec], Fields]
    """The type's own keys of a model that may be of it."""
    adapted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Groups of adapted linear layers as the type names them; empty where groups share a name."""
    traits: Mapping[str, Any] = field(default_factory=dict)
    """What its code does that others' does not, by flat name."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Usual keys that it spells its own way; those without a name it has not."""
    native: bool = True
    """Whether PyTorch's own fused attention runs it; else FlashAttention's package does. Falcon hands PyTorch
    keys of one head beside queries of many, which its fused kernels refuse."""
    notes: tuple[str, ...] = ()
    """What a user should know of its code, for the run card."""


def typed(types: Mapping[str, HubType], model: ModelSpec) -> str | None:
    """Return the first of some types that builds exactly the model's layers, if there is one.

    One that has also all of the model's numbers goes first.
    """
    found = alike(types, model)
    whole = (kind for kind in found if not typed_unsaid(kind, types[kind], model))
    return next(whole, found[0] if found else None)


def alike(types: Mapping[str, HubType], model: ModelSpec) -> tuple[str, ...]:
    """Return those of some types that build exactly the model's layers."""
    return tuple(kind for kind, one in types.items() if one.may_be(model) and _same(kind, one, model))


@remembered(most=256)
def _again(model: ModelSpec, kind: str, one: HubType) -> ModelSpec | None:
    """Return the model that is read from what is written for another, None where it is refused."""
    try:
        return hf_config.model_from_config(typed_config(kind, one, model, 1), "config.json", model.name).model
    except InputError:
        return None


def _same(kind: str, one: HubType, model: ModelSpec) -> bool:
    again = _again(model, kind, one)
    return again is not None and _built(again) == _built(model)


def _built(model: ModelSpec) -> tuple[object, ...]:
    blocks = [model.blocks[name] for name in model.layers]
    ends = (model.hidden, model.vocab, model.tied_embeddings, model.learned_positions, model.final_norm)
    rows = (model.position_rows, model.spare_positions, model.token_types, model.head_product)
    return (
        *ends,
        model.layer_inputs,
        *rows,
        model.norm,
        model.norm_bias,
        model.variants,
        model.prediction,
        model.encoder,
        blocks,
    )


_SCALES: Final = (
    *("attention_softcap", "qkv_clip", "logit_softcap", "embedding_scale", "residual_scale", "logit_scale"),
    "value_scale",
    "part_scales",
)
"""Numbers that are none where a model says none."""

_TURNED: Final = ("local_rope_theta", "rope_fraction", "rope_scaling")
"""Numbers that are none where a model says none, but the base of its positions."""


def typed_unsaid(kind: str, one: HubType, model: ModelSpec) -> tuple[str, ...]:
    """Return the fields of the model's numerics that the architecture reads otherwise, or not at all."""
    again = _again(model, kind, one)
    known = said(again.numerics) if again is not None else {}
    own = said(model.numerics)
    width = model.attentions[0].qk_head_dim if model.attentions else 1
    for fields in (known, own):
        if isclose(fields.get("attention_scale", 0.0), width**-0.5):
            del fields["attention_scale"]
    silent = (*_SCALES, "attention_scale", *(_TURNED if "rope_theta" in own else ()))
    other = [f"numerics.{name} {value}" for name, value in own.items() if known.get(name) != value]
    added = [f"no numerics.{name}" for name in silent if name in known and name not in own]
    return (*other, *added)


def typed_config(kind: str, one: HubType, model: ModelSpec, seq_len: int) -> Fields:
    """Return the ``config.json`` of a model for sequences of ``seq_len``.

    Where a model says no longest sequence, one is longer than its windows: else they were none.
    """
    attention = model.attentions[0]
    windows = max((mixer.window or 0 for mixer in model.attentions), default=0)
    longest = model.max_positions or (windows and windows + 1)
    fields: Fields = {
        "architectures": [one.network],
        "model_type": kind,
        "vocab_size": model.vocab,
        "tie_word_embeddings": model.tied_embeddings,
        "hidden_size": model.hidden,
        "num_hidden_layers": model.num_layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "max_position_embeddings": max(longest, seq_len),
        "use_cache": False,
    }
    if model.numerics.init_std is not None:
        fields["initializer_range"] = model.numerics.init_std
    spelt = {one.names.get(name, name): value for name, value in (fields | one.fields(model)).items()}
    spelt.pop("", None)
    return spelt


REGULAR: Final = {
    "qkv": ("q_proj", "k_proj", "v_proj"),
    "proj": ("o_proj",),
    "fc1": ("gate_proj", "up_proj"),
    "fc2": ("down_proj",),
}
"""Groups of adapted linear layers as most types name them."""
