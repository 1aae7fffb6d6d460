"""Parts of a model's layers: mixers, feed-forwards, and the block that joins one of each."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from planner.formulas import transformer
from planner.formulas.zero_experts import mean_picks
from planner.inputs.block_parts import Extra, Part
from planner.inputs.mixers.gated_delta import GatedDelta
from planner.inputs.mixers.indexer import BlockIndexer, Indexer
from planner.inputs.mixers.kimi_delta import KimiDelta
from planner.inputs.mixers.lightning import Lightning
from planner.inputs.mixers.mamba1 import Mamba1
from planner.inputs.mixers.mamba2 import Mamba2
from planner.inputs.mixers.short_conv import ShortConv
from planner.inputs.record import Count, Flag, Positive, Record
from planner.inputs.recurrent import RecurrentMixer
from planner.numeric import Num


class Attention(Record):
    """Multi-head or grouped-query attention, over the whole sequence or a window of it.

    A ``window`` slides with the query, unless ``chunked``: then the sequence is cut into windows, each a
    causal sequence of its own. ``qk_norm``: none, with weights (and a bias) as wide as a head, of each head's
    own, or over all heads at once. ``output_gate``: queries come with a gate as wide, by whose sigmoid the
    result is multiplied; ``head_gate``: with one number for each head. ``projected`` are those of queries,
    keys and values that it makes itself: without values its keys, before they are turned, are its values too
    (Gemma 4), which some runtimes make all the same and leave unread; queries alone meet the keys and values
    of the last layer of its kind that makes them (Gemma 4 E2B). Without ``causal`` each sees all keys, those
    after it too. Without ``key_bias`` keys have none where queries and values have one (Whisper). An
    ``indexer`` picks blocks of keys (MiniMax-M3). A layer that holds the table of scores' biases by distance
    has ``distances`` rows in it, one number for each head (T5).
    """

    kind: Literal["attention"] = "attention"
    heads: Positive
    kv_heads: Positive
    head_dim: Positive
    v_head_dim: Positive | None = None
    window: Positive | None = None
    chunked: Flag = False
    causal: Flag = True
    qkv_bias: Flag = False
    key_bias: Flag = True
    output_bias: Flag = False
    qk_norm: Literal["none", "head", "head-bias", "each", "full"] = "none"
    sinks: Flag = False
    rotary: Flag = True
    output_gate: Flag = False
    head_gate: Flag = False
    projected: Literal["queries-keys-values", "queries-keys", "queries-keys-unread", "queries"] = (
        "queries-keys-values"
    )
    indexer: BlockIndexer | None = None
    distances: Count = 0

    @property
    def reads_all(self) -> bool:
        """Whether a query sees every key, as many of them as queries' heads, wherever either stands."""
        plain = self.window is None and self.heads == self.kv_heads and self.qk_norm == "none"
        return plain and not (self.causal or self.rotary or self.sinks or self.distances)

    @property
    def makes_keys(self) -> bool:
        """Whether keys come out of a product of its own."""
        return self.projected != "queries"

    @property
    def makes_values(self) -> bool:
        """Whether values come out of a product of its own."""
        return self.projected in ("queries-keys-values", "queries-keys-unread")

    @property
    def made_width(self) -> int:
        """Width of what one key/value head's products make. [element]"""
        return self.makes_keys * self.head_dim + self.makes_values * self.value_head_dim

    @property
    def reach(self) -> int | None:
        """Keys that a query attends to at most, where not to the whole sequence. [-]"""
        return self.indexer.topk if self.indexer else self.window

    @property
    def core_widths(self) -> tuple[int, int]:
        """Width of a query and of a value in the core. [element]"""
        return self.head_dim, self.value_head_dim

    @property
    def gate_width(self) -> int:
        """Width of the gate on the result, none where there is none. [element]"""
        return self.heads * (self.output_gate * self.value_head_dim + self.head_gate)

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head. [element]"""
        return self.head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one value head. [element]"""
        return self.v_head_dim or self.head_dim

    @property
    def qkv_width(self) -> int:
        """Width of what is made of queries, keys, values and gate, together. [element]"""
        return self.heads * self.head_dim + self.kv_heads * self.made_width + self.gate_width

    @property
    def qkv_biases(self) -> int:
        """Biases of queries, keys, values and gate. [element]"""
        keys = 0 if self.key_bias else self.kv_heads * self.head_dim * self.makes_keys
        return self.qkv_bias * (self.qkv_width - keys)

    def qk_norm_params(self, heads: Num, kv_heads: Num) -> Num:
        """Parameters of the norms of so many query and key heads. [element]"""
        one = {"none": 0, "head": 1 + self.makes_keys, "head-bias": 2 + 2 * self.makes_keys}.get(self.qk_norm)
        return (heads + kv_heads * self.makes_keys if one is None else one) * self.head_dim

    def weights(self, hidden: int) -> int:
        """Weights of its products, the gate's among them. [element]"""
        return hidden * (self.qkv_width + self.heads * self.value_head_dim)

    def params(self, hidden: int) -> int:
        """Parameters, biases and inner norms included. [element]"""
        inner = int(self.qk_norm_params(self.heads, self.kv_heads))
        inner += (self.sinks + self.distances) * self.heads
        inner += self.indexer.params(hidden) if self.indexer else 0
        return self.weights(hidden) + self.qkv_biases + self.output_bias * hidden + inner

    @model_validator(mode="after")
    def _check(self) -> Attention:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) that kv_heads ({self.kv_heads}) divides")
        if self.chunked and self.window is None:
            raise ValueError("a window, the length of one chunk, where chunked is true")
        if self.indexer and (self.window or self.indexer.heads != self.kv_heads):
            raise ValueError("no window beside an indexer, whose heads are those of keys and values")
        return self


class LatentAttention(Record):
    """Multi-head latent attention: keys and values rebuilt from one low-rank stream."""

    kind: Literal["latent"] = "latent"
    heads: Positive
    q_lora_rank: Count = 0
    kv_lora_rank: Positive
    qk_nope_head_dim: Positive
    qk_rope_head_dim: Positive
    v_head_dim: Positive
    output_bias: Flag = False
    indexer: Indexer | None = None

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

    @property
    def window(self) -> None:
        """Nothing: no window slides along the sequence."""
        return

    @property
    def reach(self) -> int | None:
        """Keys that a query attends to at most, where not to the whole sequence. [-]"""
        return self.indexer.topk if self.indexer else None

    @property
    def core_widths(self) -> tuple[int, int]:
        """Width of a query and of a value in the core: keys that are picked stay compressed. [element]"""
        picked = (self.kv_lora_rank + self.qk_rope_head_dim, self.kv_lora_rank)
        return picked if self.indexer else (self.qk_head_dim, self.value_head_dim)

    def params(self, hidden: int) -> int:
        """Parameters, inner norms and indexer included. [element]"""
        picks = self.indexer.params(hidden, self.q_lora_rank) if self.indexer else 0
        return (
            picks
            + int(
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
            + (self.output_bias * hidden)
        )


class DenseFfn(Record):
    """A feed-forward layer that every token passes."""

    kind: Literal["dense"] = "dense"
    inner: Positive
    gated: Flag = True
    bias: Flag = False
    activation_weights: Count = 0

    def params(self, hidden: int) -> int:
        """Parameters. [element]"""
        weights = int(transformer.ffn_params(hidden, self.inner, 3 if self.gated else 2))
        return (
            self.activation_weights + weights + self.bias * ((2 if self.gated else 1) * self.inner + hidden)
        )

    def active_params(self, hidden: int) -> int:
        """Parameters that one token uses. [element]"""
        return self.params(hidden)


class Experts(Record):
    """A mixture of experts: a router, routed experts, and shared experts that every token passes.

    Routed experts with a ``latent`` width work on tokens that one product makes so narrow before they are
    sent, and another wide again after they came back (Nemotron 3, arXiv:2512.20856).
    ``zero_experts`` give a token back. What those on a ``shortcut`` make is added after the next layer, and
    messages run beside what lies between (LongCat-Flash, arXiv:2509.01322, sec. 2; ScMoE, arXiv:2404.05019).
    """

    kind: Literal["moe"] = "moe"
    experts: Positive
    topk: Positive
    inner: Positive
    gated: Flag = True
    bias: Flag = False
    shared_inner: Count = 0
    shared_gate: Flag = False
    router_bias: Flag = False
    zero_experts: Count = 0
    shortcut: Flag = False
    latent: Count = 0

    @model_validator(mode="after")
    def _check(self) -> Experts:
        if self.topk > self.choices:
            raise ValueError(f"topk ({self.topk}) of at most experts ({self.choices})")
        if self.shared_gate and not self.shared_inner:
            raise ValueError("a shared_inner where there is a shared_gate")
        if self.latent and (self.zero_experts or self.shortcut):
            raise ValueError("no zero_experts and no shortcut where there is a latent width")
        return self

    @property
    def choices(self) -> int:
        """Experts that the router picks among. [-]"""
        return self.experts + self.zero_experts

    @property
    def picks(self) -> float:
        """Experts that compute that a token passes in the mean: the router keeps all equally busy. [-]"""
        return mean_picks(self.topk, self.experts, self.zero_experts)

    def expert_params(self, hidden: int) -> int:
        """Parameters of one routed expert. [element]"""
        return DenseFfn(inner=self.inner, gated=self.gated, bias=self.bias).params(self.width(hidden))

    def width(self, hidden: int) -> int:
        """Width of what routed experts read and write. [element]"""
        return self.latent or hidden

    def shared_params(self, hidden: int) -> int:
        """Parameters of router, shared experts and products to the latent width and back. [element]"""
        narrowed = 2 * hidden * self.latent
        shared = transformer.ffn_params(hidden, self.shared_inner, 3 if self.gated else 2)
        return narrowed + int(shared) + self.shared_gate * hidden + (hidden + self.router_bias) * self.choices

    def params(self, hidden: int) -> int:
        """Parameters. [element]"""
        return self.experts * self.expert_params(hidden) + self.shared_params(hidden)

    def active_params(self, hidden: int) -> int:
        """Parameters that one token uses in the mean. [element]"""
        return round(self.picks * self.expert_params(hidden)) + self.shared_params(hidden)


Recurrent = GatedDelta | Mamba2 | KimiDelta | Lightning | Mamba1 | ShortConv
"""Mixers that pass a state along the sequence, each a file of `planner.inputs.mixers`."""

Mixer = Annotated[Attention | LatentAttention | Recurrent, Field(discriminator="kind")]
StateMixer = Annotated[Recurrent, Field(discriminator="kind")]
Ffn = Annotated[DenseFfn | Experts, Field(discriminator="kind")]

MOST_NORMS: Final = 16
"""Norms of a layer: known models have four at most, and each is priced by itself. [-]"""


class Block(Record):
    """One layer: a mixer and a feed-forward, or one of them alone, with the norms around them.

    One that passes a state along may stand ``beside`` attention: both read one norm, and their results are
    added (Falcon-H1, arXiv:2507.22448, sec. 2).
    After its mixer a decoder's layer may attend to what an encoder made of another sequence (``cross``).
    A block of a diffusion transformer is said by ``parts`` alone, its norms among them. ``extras`` are
    operators of a model of one's own beside the others, whole on every rank that has the layer.
    """

    mixer: Mixer | None = None
    beside: StateMixer | None = None
    cross: Attention | None = None
    ffn: Ffn | None = None
    norms: Annotated[Count, Field(le=MOST_NORMS)] = 2
    parts: tuple[Part, ...] = ()
    extras: tuple[Extra, ...] = Field(default=(), max_length=64)

    @model_validator(mode="after")
    def _check(self) -> Block:
        if self.beside and self.attention is None:
            raise ValueError("attention as the mixer that another stands beside")
        if self.cross and not (self.attention and self.ffn and self.cross.reads_all):
            raise ValueError("cross between attention and a feed-forward, with causal and rotary false")
        if self.parts and (self.mixer or self.ffn or self.norms or self.extras):
            raise ValueError("parts alone: no mixer, no ffn and no extras, and norms 0")
        if self.mixer is None and self.ffn is None and not self.parts and not self.extras:
            raise ValueError("a mixer, a feed-forward (ffn), or both")
        return self

    @property
    def attention(self) -> Attention | LatentAttention | None:
        """The mixer, where it is attention over the sequence."""
        return self.mixer if isinstance(self.mixer, Attention | LatentAttention) else None

    @property
    def recurrent(self) -> Recurrent | None:
        """The mixer that passes a state along the sequence, where there is one."""
        return self.mixer if isinstance(self.mixer, RecurrentMixer) else self.beside

    @property
    def mixers(self) -> tuple[Attention | LatentAttention | Recurrent, ...]:
        """Its mixers: two side by side, one, or none."""
        return tuple(one for one in (self.mixer, self.beside) if one is not None)

    def params(self, hidden: int, norm_width: int) -> int:
        """Parameters; ``norm_width`` is those of one norm. [element]"""
        fed = self.ffn.params(hidden) if self.ffn else 0
        return self._mixed(hidden) + fed + self.norms * norm_width

    def active_params(self, hidden: int, norm_width: int) -> int:
        """Parameters that one token uses. [element]"""
        fed = self.ffn.active_params(hidden) if self.ffn else 0
        return self._mixed(hidden) + fed + self.norms * norm_width

    def _mixed(self, hidden: int) -> int:
        beside = sum(part.params for part in self.parts) + sum(one.params for one in self.extras)
        beside += self.cross.params(hidden) if self.cross else 0
        return beside + sum(one.params(hidden) for one in self.mixers)
