"""What the code of one model type does that its ``config.json`` does not say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from planner.dataclasses import dataclass, field
from planner.inputs.variants import Variant

Biased = bool | str
"""Whether there is a bias; text names the key of the config that says so."""

Reach = Literal["full", "all", "flag", "every", "chunk", "hybrid", "bare", "listed"]
"""Which layers see a window: none, all if there is a window, those from ``max_window_layers`` on if a flag is
set, all but each n-th, chunks in all but each n-th, or those of a list, which
``listed`` has to be there; ``bare``: none, and each n-th layer
has no rotary positions."""


ADJUSTED: Final = "adjusted width"
"""Key of the defaults under which a type's feed-forward has another width than its config names."""


@dataclass(frozen=True)
class SharedExperts:
    """Experts that every token passes."""

    key: str
    """Key of their width, or of their number times that of routed experts."""
    other: str = ""
    """Another spelling of it."""
    gate: bool = False
    """Whether a gate weighs them."""
    least: int = 0
    """Least value of the key: of none the class makes a gate alone, or experts of another width. [-]"""


@dataclass(frozen=True)
class Family:
    """One model type."""

    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Values of keys that a config may leave out, as the type's configuration class has them."""
    qkv_bias: Biased = False
    output_bias: Biased = False
    ffn_bias: Biased = False
    """Biases of the attention's projections and the feed-forward."""
    qk_norm: Literal["none", "head", "head-bias", "each", "full"] = "none"
    """Norms of queries and keys, as `planner.inputs.blocks.Attention` has them."""
    norms: int = 2
    """Norms of a block."""
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    """``rmsnorm`` or ``layernorm``."""
    norm_bias: bool = True
    """Whether a layer norm has a bias."""
    gated: bool = True
    """Whether the feed-forward has a gate."""
    moe: bool = False
    latent: bool = False
    """Whether it has experts, and latent attention."""
    expert_bias: bool = False
    router_bias: bool = False
    sinks: bool = False
    """Whether experts and router have biases, and the heads sinks."""
    shared: SharedExperts | None = None
    """Its shared experts, where it may have any."""
    reach: Reach = "full"
    """Which layers see a window."""
    learned_positions: bool = False
    """Whether positions are learned, not rotary."""
    dense_inner: str = "intermediate_size"
    """Key of the feed-forward's width."""
    spare_positions: int = 0
    """Rows of the table of learned positions beyond the longest sequence."""
    linear: str = ""
    """Kind of the mixers that pass a state along, where there are any."""
    single: bool = False
    """Whether a layer is a mixer or a feed-forward alone."""
    output_gate: bool = False
    """Whether attention has an output gate."""
    head_gate: Biased = False
    """Whether attention has a gate for each head."""
    windows: bool = False
    """Whether attention beside mixers that pass a state along may have a window."""
    picks: bool = False
    """Whether an indexer picks the keys of latent attention."""
    narrow: bool = False
    """Whether its experts may work in a latent space."""
    reads: tuple[str, ...] = ()
    """Keys that speak against other types, and that this one is read by."""
    wide_full: bool = False
    """Whether layers that see the whole sequence have heads of another width and number."""
    paired: bool = False
    """Whether a layer is two here: attention, a dense feed-forward and beside it experts on a shortcut, then
    attention and a dense feed-forward, after which the experts' result is added."""
    fixed: Mapping[str, bool | str | float | None] = field(default_factory=dict)
    """Keys that may have one value alone, another would be another architecture; text names the key whose
    value it is."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Keys that may have one word alone."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Keys that the type spells its own way, each under the usual one; dots lead into objects."""
    variants: tuple[Variant, ...] = ()
    """What of its blocks is other than usual."""
    bare_full: bool = False
    """Whether, beside layers with a window, those without have no rotary positions."""
    bare: bool = False
    """Whether no layer has rotary positions."""
    activation_weights: int = 0
    """Weights of the feed-forward's activation."""
    beside: bool = False
    """Whether each layer has attention and, beside it, a mixer that passes a state along."""
    recurrent_alone: bool = False
    """Whether all layers are one mixer that passes a state along."""
    causal: bool = True
    """Whether a token sees those before it alone."""
    token_types: str = ""
    """Key of the number of token types, where there is a table of them."""
    head_product: bool | None = None
    """Whether the product before the head has a bias; None where there is no such product."""
    final_norm: bool = True
    """Whether there is a norm after the last layer."""
    padded_positions: bool = False
    """Whether the rows of the table of positions, up to that of the padding token, are no positions."""
    dense_prediction: bool = False
    """Whether extra prediction layers are dense where the last layer has experts."""
