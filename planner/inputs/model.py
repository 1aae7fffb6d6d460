"""The model: runs of identical blocks between an embedding and a head. Nothing assumes equal layers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import groupby
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from planner.inputs.blocks import (
    MOST_NORMS,
    Attention,
    Block,
    DenseFfn,
    Experts,
    Ffn,
    LatentAttention,
    Mixer,
    Recurrent,
)
from planner.inputs.diffusion import Diffusion
from planner.inputs.encoder import Encoder
from planner.inputs.head_product import HeadProduct
from planner.inputs.layer_inputs import LayerInputs
from planner.inputs.layers import BlockName, layer_faults, parse_layers
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.mixers.indexer import Indexer
from planner.inputs.mixers.kimi_delta import KimiDelta
from planner.inputs.mixers.lightning import Lightning
from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.numerics import Numerics
from planner.inputs.prediction import PredictionLayers
from planner.inputs.published import Published
from planner.inputs.record import Count, Flag, Positive, Record
from planner.inputs.variants import Variant
from planner.shown import Short

__all__ = [
    "MOST_NORMS", "Attention", "Block", "DenseFfn", "Encoder", "Experts", "Ffn", "GatedDelta", "Indexer",
    "KimiDelta", "LatentAttention", "Lightning", "Mamba2", "Mixer", "ModelSpec", "Recurrent",
]  # fmt: skip


class ModelSpec(Short, Record):
    """A transformer as the planner prices it.

    ``layers`` names the block of each layer, first to last; consecutive equal names make a run. A file may
    write it as text, such as ``3 dense, 58 moe``. A table of learned positions has ``spare_positions`` rows
    beyond the longest sequence; ``token_types`` are rows of a table of what a token belongs to.
    """

    name: str = Field(min_length=1, max_length=200)
    aliases: tuple[str, ...] = ()
    source: str = ""
    note: str = ""
    hidden: Positive
    diffusion: Diffusion | None = None
    vocab: Count
    tied_embeddings: Flag
    max_positions: Positive | None = None
    learned_positions: Flag = False
    spare_positions: Count = 0
    token_types: Count = 0
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_bias: Flag = False
    final_norm: Flag = True
    head_product: HeadProduct | None = None
    variants: tuple[Variant, ...] = ()
    blocks: dict[BlockName, Block]
    layers: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    prediction: PredictionLayers | None = None
    layer_inputs: LayerInputs | None = None
    encoder: Encoder | None = None
    numerics: Numerics = Numerics()
    published: Published = Published()

    @model_validator(mode="before")
    @classmethod
    def _without_tokens(cls, raw: Any) -> Any:
        there = isinstance(raw, Mapping) and raw.get("diffusion") is not None and "vocab" not in raw
        return {**raw, "vocab": 0} if there else raw

    @field_validator("vocab")
    @classmethod
    def _vocab(cls, vocab: int, info: ValidationInfo) -> int:
        if bool(vocab) == bool(info.data.get("diffusion")):
            raise ValueError("more than 0, or diffusion and no vocabulary")
        return vocab

    @field_validator("layers", mode="before")
    @classmethod
    def _layers(cls, raw: Any) -> Any:
        return parse_layers(raw) if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _check(self) -> ModelSpec:
        faults = layer_faults(self.layers, self.prediction.block if self.prediction else "", self.blocks)
        if self.prediction and self.prediction.repeated and self.prediction.block in self.layers:
            faults.append("a block of its own where a prediction layer is repeated")
        if self.learned_positions and self.max_positions is None:
            faults.append("max_positions, since learned_positions is true")
        if any(bool(block.parts) != bool(self.diffusion) for block in self.blocks.values()):
            faults.append("blocks of parts where there is diffusion, and there alone")
        faults += self._encoder_faults()
        if faults:
            raise ValueError("; ".join(faults))
        return self

    def _encoder_faults(self) -> list[str]:
        """Say what of an encoder does not fit how its result is read: by layers, or as tokens."""
        crosses = {block.cross is not None for block in self.blocks.values()}
        if self.encoder is None:
            return ["an encoder, which cross attends to"] * (True in crosses)
        if True not in crosses:
            whole = self.encoder.stem is not None and bool(self.encoder.projectors)
            return [] if whole else ["a stem and projectors of the encoder, or cross in each block"]
        fits = crosses == {True} and not self.encoder.projectors and self.encoder.hidden == self.hidden
        return [] if fits else ["cross in each block, and an encoder as wide as the model without projectors"]

    @property
    def crosses(self) -> bool:
        """Whether it is an encoder and a decoder, whose layers attend to what the encoder makes."""
        return any(block.cross for block in self.blocks.values())

    @property
    def num_layers(self) -> int:
        """Layers, extra prediction layers not counted. [-]"""
        return len(self.layers)

    @cached_property
    def runs(self) -> tuple[tuple[str, int], ...]:
        """Consecutive equal blocks as (block, layers)."""
        return tuple((name, len(list(group))) for name, group in groupby(self.layers))

    @cached_property
    def layer_counts(self) -> dict[str, int]:
        """Layers of each block kind, extra prediction layers not counted. [-]"""
        return {name: self.layers.count(name) for name in self.blocks}

    @cached_property
    def expert_kinds(self) -> tuple[Experts, ...]:
        """Feed-forwards that route tokens to experts, one for each kind of block that has them."""
        return tuple(block.ffn for block in self.blocks.values() if isinstance(block.ffn, Experts))

    @cached_property
    def attentions(self) -> tuple[Attention | LatentAttention, ...]:
        """Attention of each kind of block that has it."""
        return tuple(block.attention for block in self.blocks.values() if block.attention)

    @cached_property
    def recurrents(self) -> tuple[Recurrent, ...]:
        """Mixers that pass a state along the sequence, of each kind of block that has one."""
        return tuple(block.recurrent for block in self.blocks.values() if block.recurrent)

    @cached_property
    def ffns(self) -> tuple[DenseFfn | Experts, ...]:
        """The feed-forward of each kind of block that has one."""
        return tuple(block.ffn for block in self.blocks.values() if block.ffn)

    @cached_property
    def hands_on(self) -> bool:
        """Whether layers read more than the one before them made: keys of another, or inputs of their own."""
        kept = any(isinstance(one, Attention) and not one.makes_keys for one in self.attentions)
        return kept or self.layer_inputs is not None

    @cached_property
    def is_whole(self) -> bool:
        """Whether every layer has a mixer and a feed-forward."""
        return all(block.mixer and block.ffn for block in self.blocks.values())

    @cached_property
    def fills_masks(self) -> bool:
        """Whether it is trained to fill in masked tokens: each token sees those after it too."""
        seen = [one for one in self.attentions if isinstance(one, Attention)]
        return self.diffusion is None and any(not one.causal for one in seen)

    @property
    def position_rows(self) -> int:
        """Rows of the table of learned positions. [-]"""
        return (self.max_positions or 0) + self.spare_positions if self.learned_positions else 0

    @property
    def norm_params(self) -> int:
        """Parameters of one norm. [element]"""
        return 0 if "bare-norms" in self.variants else self.hidden * (2 if self.norm_bias else 1)

    @property
    def embedding_norm(self) -> bool:
        """Whether a norm follows the embedding."""
        return "embedding-norm" in self.variants

    @property
    def head_bias(self) -> bool:
        """Whether the output head has a bias."""
        return "head-bias" in self.variants

    @property
    def embedding_params(self) -> int:
        """Token and learned position embeddings, or what stands before the first block. [element]"""
        if self.diffusion:
            return self.diffusion.first_params
        rows = self.vocab + self.position_rows + self.token_types
        beside = self.layer_inputs.params(self.hidden, self.num_layers) if self.layer_inputs else 0
        return rows * self.hidden + self.embedding_norm * self.norm_params + beside

    @property
    def head_params(self) -> int:
        """Output head where it is not the embedding, and the last norm. [element]"""
        if self.diffusion:
            return self.diffusion.last_params
        weights = 0 if self.tied_embeddings else self.vocab * self.hidden
        before = self.head_product.params(self.hidden, self.norm_params) if self.head_product else 0
        return weights + before + self.head_bias * self.vocab + self.final_norm * self.norm_params

    def block_params(self, name: str) -> int:
        """Parameters of one block. [element]"""
        return self.blocks[name].params(self.hidden, self.norm_params)

    @cached_property
    def params(self) -> int:
        """Parameters of the model without extra prediction layers, as model cards count. [element]"""
        blocks = sum(count * self.block_params(name) for name, count in self.layer_counts.items())
        return blocks + self.embedding_params + self.head_params + self.encoder_params

    @property
    def encoder_params(self) -> int:
        """Parameters of the encoder and its projectors, none without. [element]"""
        return self.encoder.params if self.encoder else 0

    @cached_property
    def active_params(self) -> int:
        """Parameters that one token uses, embedding and head included. [element]"""
        used = {
            name: block.active_params(self.hidden, self.norm_params) for name, block in self.blocks.items()
        }
        blocks = sum(count * used[name] for name, count in self.layer_counts.items())
        return blocks + self.embedding_params + self.head_params + self.encoder_params

    @cached_property
    def prediction_params(self) -> int:
        """Parameters of the extra prediction layers. [element]"""
        if self.prediction is None:
            return 0
        extra = self.prediction.extra_params(self.hidden, self.norm_params)
        return self.prediction.copies * (extra + self.block_params(self.prediction.block))
