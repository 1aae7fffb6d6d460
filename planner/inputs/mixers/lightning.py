"""Lightning attention: linear attention with a fixed decay for each head."""

from __future__ import annotations

from typing import Literal

from planner.formulas.recurrence import linear_attention_flops
from planner.inputs.record import Positive
from planner.inputs.recurrent import EqualHeads, Product


class Lightning(EqualHeads):
    """Linear attention as MiniMax-01 has it: no convolution, one norm over all heads, an output gate.

    References
    ----------
    .. [1] MiniMax, "MiniMax-01," arXiv:2501.08313, 2025, sec. 2.2.
    .. [2] Hugging Face, Transformers v5.23.0, ``models/minimax/modeling_minimax.py``,
       ``MiniMaxLightningAttention``.
    """

    kind: Literal["lightning"] = "lightning"
    chunk: Positive = 256

    @property
    def conv_width(self) -> int:
        """None: there is no convolution. [element]"""
        return 0

    @property
    def divided_params(self) -> int:
        """The norm of the result, which all heads share. [element]"""
        return self._inner

    @property
    def whole_params(self) -> int:
        """None. [element]"""
        return 0

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Queries, keys, values and gate in one; the result."""
        return (
            Product("mixer_in", hidden, 4 * self._inner, "columns"),
            Product("mixer_out", self._inner, hidden, "rows"),
        )

    @property
    def scan_flops(self) -> float:
        """FLOPs of the scan for one token and head, forward. [FLOP]"""
        return float(linear_attention_flops(self.head_dim, self.head_dim, self.chunk, 1))

    @property
    def scan_elements(self) -> float:
        """Elements: queries, keys and values twice, the result, states of blocks in fp32. [element]"""
        return 7.0 * self.head_dim + 4.0 * self.head_dim**2 / self.chunk

    @property
    def model_flops(self) -> float:
        """Two products of a head's width squared. [FLOP]"""
        return 4.0 * self.heads * self.head_dim**2

    @property
    def around(self) -> float:
        """The activation of queries, keys and values, and the gated norm. [element]"""
        return 6.0 * self._inner + 5.0 * self._inner

    @property
    def kept(self) -> float:
        """Activated queries, keys, values; the scan's result, that normed, the last one's input. [element]"""
        return 6.0 * self._inner
