"""Gated delta net: a state that forgets by a gate and is corrected by the delta rule."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from planner.formulas.recurrence import delta_rule_flops
from planner.inputs.record import Positive
from planner.inputs.recurrent import NORMED, Product, RecurrentMixer


class GatedDelta(RecurrentMixer):
    """Gated delta net, as Qwen3-Next has it: fewer query/key heads than value heads, an output gate.

    References
    ----------
    .. [1] S. Yang, J. Kautz, A. Hatamizadeh, "Gated Delta Networks," arXiv:2412.06464, 2024.
    .. [2] Hugging Face, Transformers v5.23.0, ``models/qwen3_next/modeling_qwen3_next.py``,
       ``Qwen3NextGatedDeltaNet``: which layers there are, and that none has a bias.
    .. [3] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/ssm/gated_delta_net``: one product for all inputs,
       and what is kept for backward.
    """

    kind: Literal["gated-delta"] = "gated-delta"
    key_heads: Positive
    value_heads: Positive
    key_head_dim: Positive
    head_dim: Positive

    @model_validator(mode="after")
    def _check(self) -> GatedDelta:
        if self.value_heads % self.key_heads:
            raise ValueError(f"value_heads ({self.value_heads}) that key_heads ({self.key_heads}) divides")
        return self

    @property
    def state_heads(self) -> int:
        """Value heads. [-]"""
        return self.value_heads

    @property
    def state_groups(self) -> int:
        """Query/key heads. [-]"""
        return self.key_heads

    @property
    def qk_head_dim(self) -> int:
        """Width of one query or key head. [element]"""
        return self.key_head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one value head. [element]"""
        return self.head_dim

    @property
    def _keys(self) -> int:
        return self.key_heads * self.key_head_dim

    @property
    def _values(self) -> int:
        return self.value_heads * self.head_dim

    @property
    def only_decays(self) -> bool:
        """No: the delta rule takes out of the state what it held under a token's key."""
        return False

    @property
    def conv_width(self) -> int:
        """Channels: queries, keys and values. [element]"""
        return 2 * self._keys + self._values

    @property
    def divided_params(self) -> int:
        """Convolution, decay rate and its bias. [element]"""
        return self.conv_width * self.conv_kernel + 2 * self.value_heads

    @property
    def whole_params(self) -> int:
        """The norm of a head's result. [element]"""
        return self.head_dim

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Queries, keys, values, gate, write strength and decay in one; the result."""
        width = 2 * self._keys + 2 * self._values + 2 * self.value_heads
        return (
            Product("mixer_in", hidden, width, "columns"),
            Product("mixer_out", self._values, hidden, "rows"),
        )

    @property
    def scan_flops(self) -> float:
        """FLOPs of the scan for one token and head, forward. [FLOP]"""
        return float(delta_rule_flops(self.key_head_dim, self.head_dim, self.chunk))

    @property
    def scan_elements(self) -> float:
        """Elements: keys in four kernels, queries in one, the chunk's matrices, both states. [element]

        References
        ----------
        .. [1] flash-linear-attention, ``fla/ops/gated_delta_rule/chunk.py``: the chain of kernels.
        """
        chain = 7.0 * self.key_head_dim + 6.0 * self.head_dim + 5.0 * self.chunk
        return chain + 2.0 * self.key_head_dim * self.head_dim / self.chunk

    @property
    def model_flops(self) -> float:
        """Convolution and four products of a head's width squared (``gdn_layer_flops``). [FLOP]"""
        return 2.0 * (self.conv_kernel * self.conv_width + 4.0 * self.value_heads * self.head_dim**2)

    @property
    def around(self) -> float:
        """Norms of queries and keys, their copies for every value head, the gated norm. [element]"""
        return 4.0 * self._keys + 2.0 * self.copied + 2.0 * self._values + NORMED * self.normed

    @property
    def kept(self) -> float:
        """Normed queries and keys, their copies, five tensors of values, the chunk's inverse. [element]

        Values, the scan's result, that normed, the gate, and what the last product reads.
        """
        inverse = self.value_heads * (self.chunk + 6)
        return float(2 * self._keys + self.copied + 5 * self._values + inverse)

    @property
    def copied(self) -> int:
        """Queries and keys of every value head. [element]"""
        return 2 * self.value_heads * self.key_head_dim

    @property
    def normed(self) -> int:
        """The scan's result. [element]"""
        return self._values
