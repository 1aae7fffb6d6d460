"""Kimi delta attention: the gated delta rule with a decay for every channel of the keys."""

from __future__ import annotations

from typing import Literal

from planner.formulas.recurrence import delta_rule_flops
from planner.inputs.recurrent import EqualHeads, Product

SLOWER = 1.6
"""Time of its kernels over that of the gated delta rule's: 1.51 and 1.58 on H20, 1.82 and 1.78 on GB200. [-]

References
----------
.. [1] Moonshot AI, FlashKDA 1ce47ea3, ``BENCHMARK_H20.md`` and ``BENCHMARK_GB200.md``: ``chunk_kda`` and
   ``chunk_gated_delta_rule`` of flash-linear-attention, forward, 8,192 tokens, 64 and 96 heads of 128 (MIT).
"""


class KimiDelta(EqualHeads):
    """Kimi delta attention: decay and output gate through a bottleneck as wide as a head.

    References
    ----------
    .. [1] Kimi Team, "Kimi Linear," arXiv:2510.26692, 2025, sec. 3.
    .. [2] Hugging Face, Transformers v5.23.0, ``models/kimi_linear/modeling_kimi_linear.py``,
       ``KimiLinearDeltaAttention``, ``KimiLinearForgetGate``.
    """

    kind: Literal["kimi-delta"] = "kimi-delta"

    @property
    def only_decays(self) -> bool:
        """No: the delta rule takes out of the state what it held under a token's key."""
        return False

    @property
    def conv_width(self) -> int:
        """Channels: queries, keys and values. [element]"""
        return 3 * self._inner

    @property
    def divided_params(self) -> int:
        """Convolution, a decay rate for each head and its bias for each channel. [element]"""
        return self.conv_width * self.conv_kernel + self.heads + self._inner

    @property
    def whole_params(self) -> int:
        """The norm of a head's result. [element]"""
        return self.head_dim

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Queries, keys, values and write strength; two bottlenecks and what reads them; the result."""
        return (
            Product("mixer_in", hidden, 3 * self._inner + self.heads, "columns"),
            Product("gate_down", hidden, 2 * self.head_dim, "none"),
            Product("decay_up", self.head_dim, self._inner, "columns"),
            Product("gate_up", self.head_dim, self._inner, "columns"),
            Product("mixer_out", self._inner, hidden, "rows"),
        )

    @property
    def scan_flops(self) -> float:
        """FLOPs of the scan for one token and head, forward. [FLOP]"""
        return float(delta_rule_flops(self.head_dim, self.head_dim, self.chunk))

    @property
    def scan_elements(self) -> float:
        """Elements: as of the gated delta rule, and a decay in fp32 for every channel. [element]"""
        return 17.0 * self.head_dim + 5.0 * self.chunk + 2.0 * self.head_dim**2 / self.chunk

    @property
    def slowdown(self) -> float:
        """Time of the scan's kernels over that of the gated delta rule's at equal work. [-]"""
        return SLOWER

    @property
    def model_flops(self) -> float:
        """Convolution and four products of a head's width squared, as the gated delta rule. [FLOP]"""
        return 2.0 * (self.conv_kernel * self.conv_width + 4.0 * self.heads * self.head_dim**2)

    @property
    def around(self) -> float:
        """Norms of queries and keys, the decay's activation in fp32, the gated norm. [element]"""
        return 17.0 * self._inner

    @property
    def kept(self) -> float:
        """Normed queries and keys, decays in fp32, five tensors of values, two bottlenecks. [element]"""
        return float(10 * self._inner + 2 * self.head_dim + self.heads * (2 * self.chunk + 2))
