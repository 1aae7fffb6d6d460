"""The model: runs of identical blocks between an embedding and a head. Nothing assumes equal layers."""

from __future__ import annotations

from functools import cached_property
from itertools import groupby
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from planner.formulas import transformer
from planner.inputs.record import Record

Count = Annotated[int, Field(ge=0)]


class Attention(Record):
    """Multi-head or grouped-query attention, over the whole sequence or a sliding window."""

    kind: Literal["attention"] = "attention"
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    window: PositiveInt | None = None
    qkv_bias: bool = False
    output_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    sinks: bool = False
    rotary: bool = True

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head. [element]"""
        return self.head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one value head. [element]"""
        return self.head_dim

    def params(self, hidden: int) -> int:
        """Parameters, biases and inner norms included. [element]"""
        weights = int(transformer.attention_params(hidden, self.heads, self.kv_heads, self.head_dim))
        bias = self.qkv_bias * (self.heads + 2 * self.kv_heads) * self.head_dim + self.output_bias * hidden
        norms = {"none": 0, "head": 2 * self.head_dim, "full": (self.heads + self.kv_heads) * self.head_dim}
        return weights + bias + norms[self.qk_norm] + self.sinks * self.heads


class LatentAttention(Record):
    """Multi-head latent attention: keys and values rebuilt from one low-rank stream."""

    kind: Literal["latent"] = "latent"
    heads: PositiveInt
    q_lora_rank: Count = 0
    kv_lora_rank: PositiveInt
    qk_nope_head_dim: PositiveInt
    qk_rope_head_dim: PositiveInt
    v_head_dim: PositiveInt
    window: PositiveInt | None = None

    @property
    def kv_heads(self) -> int:
        """Key/value heads once rebuilt. [-]"""
        return self.heads

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head. [element]"""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one value head. [element]"""
        return self.v_head_dim

    def params(self, hidden: int) -> int:
        """Parameters, inner norms included. [element]"""
        return int(
            transformer.latent_attention_params(
                hidden,
                self.heads,
                self.q_lora_rank,
                self.kv_lora_rank,
                self.qk_nope_head_dim,
                self.qk_rope_head_dim,
                self.v_head_dim,
            )
        )


class DenseFfn(Record):
    """A feed-forward layer that every token passes."""

    kind: Literal["dense"] = "dense"
    inner: PositiveInt
    gated: bool = True
    bias: bool = False

    def params(self, hidden: int) -> int:
        """Parameters. [element]"""
        weights = int(transformer.ffn_params(hidden, self.inner, 3 if self.gated else 2))
        return weights + self.bias * ((2 if self.gated else 1) * self.inner + hidden)

    def active_params(self, hidden: int) -> int:
        """Parameters that one token uses. [element]"""
        return self.params(hidden)


class Experts(Record):
    """A mixture of experts: a router, routed experts, and shared experts that every token passes."""

    kind: Literal["moe"] = "moe"
    experts: PositiveInt
    topk: PositiveInt
    inner: PositiveInt
    gated: bool = True
    bias: bool = False
    shared_inner: Count = 0
    shared_gate: bool = False
    router_bias: bool = False

    @model_validator(mode="after")
    def _check(self) -> Experts:
        if self.topk > self.experts:
            raise ValueError(f"topk {self.topk} of only {self.experts} experts")
        return self

    def expert_params(self, hidden: int) -> int:
        """Parameters of one routed expert. [element]"""
        return DenseFfn(inner=self.inner, gated=self.gated, bias=self.bias).params(hidden)

    def shared_params(self, hidden: int) -> int:
        """Parameters of router and shared experts. [element]"""
        shared = transformer.ffn_params(hidden, self.shared_inner, 3 if self.gated else 2)
        return int(shared) + self.shared_gate * hidden + (hidden + self.router_bias) * self.experts

    def params(self, hidden: int) -> int:
        """Parameters. [element]"""
        return self.experts * self.expert_params(hidden) + self.shared_params(hidden)

    def active_params(self, hidden: int) -> int:
        """Parameters that one token uses. [element]"""
        return self.topk * self.expert_params(hidden) + self.shared_params(hidden)


Mixer = Annotated[Attention | LatentAttention, Field(discriminator="kind")]
Ffn = Annotated[DenseFfn | Experts, Field(discriminator="kind")]


class Block(Record):
    """One layer: a mixer and a feed-forward, with the norms around them."""

    mixer: Mixer
    ffn: Ffn
    norms: Count = 2

    def params(self, hidden: int, norm_width: int) -> int:
        """Parameters; ``norm_width`` is those of one norm. [element]"""
        return self.mixer.params(hidden) + self.ffn.params(hidden) + self.norms * norm_width

    def active_params(self, hidden: int, norm_width: int) -> int:
        """Parameters that one token uses. [element]"""
        return self.mixer.params(hidden) + self.ffn.active_params(hidden) + self.norms * norm_width


class Prediction(Record):
    """Extra multi-token prediction layers after the last block, each with its own projection and norms.

    Embedding and head are shared with the model (DeepSeek-V3, arXiv:2412.19437, sec. 2.2).
    """

    layers: PositiveInt
    block: str

    def extra_params(self, hidden: int, norm_width: int) -> int:
        """Parameters of one layer beside its block: the projection of two streams and three norms. [element]"""
        return 2 * hidden * hidden + 3 * norm_width


class Published(Record):
    """What the model's authors say of its size."""

    params: PositiveInt | None = None
    active_params: PositiveInt | None = None
    source: str = ""


class ModelSpec(Record):
    """A transformer as the planner prices it.

    ``layers`` names the block of each layer, first to last; consecutive equal names make a run.
    """

    name: str
    aliases: tuple[str, ...] = ()
    source: str = ""
    note: str = ""
    hidden: PositiveInt
    vocab: PositiveInt
    tied_embeddings: bool
    max_positions: PositiveInt | None = None
    learned_positions: bool = False
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    final_norm: bool = True
    blocks: dict[str, Block]
    layers: tuple[str, ...]
    prediction: Prediction | None = None
    published: Published = Published()

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

    @property
    def norm_params(self) -> int:
        """Parameters of one norm: a weight, and a bias for layer norm. [element]"""
        return self.hidden * (2 if self.norm == "layernorm" else 1)

    @property
    def embedding_params(self) -> int:
        """Token and learned position embeddings. [element]"""
        positions = self.max_positions if self.learned_positions and self.max_positions else 0
        return (self.vocab + positions) * self.hidden

    @property
    def head_params(self) -> int:
        """Output head where it is not the embedding, and the last norm. [element]"""
        return (0 if self.tied_embeddings else self.vocab * self.hidden) + self.final_norm * self.norm_params

    def block_params(self, name: str) -> int:
        """Parameters of one block. [element]"""
        return self.blocks[name].params(self.hidden, self.norm_params)

    @cached_property
    def params(self) -> int:
        """Parameters of the model without extra prediction layers, as model cards count. [element]"""
        blocks = sum(self.block_params(name) for name in self.layers)
        return blocks + self.embedding_params + self.head_params

    @cached_property
    def active_params(self) -> int:
        """Parameters that one token uses, embedding and head included. [element]"""
        blocks = sum(self.blocks[name].active_params(self.hidden, self.norm_params) for name in self.layers)
        return blocks + self.embedding_params + self.head_params

    @cached_property
    def prediction_params(self) -> int:
        """Parameters of the extra prediction layers. [element]"""
        if self.prediction is None:
            return 0
        extra = self.prediction.extra_params(self.hidden, self.norm_params)
        return self.prediction.layers * (extra + self.block_params(self.prediction.block))
