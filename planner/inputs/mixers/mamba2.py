"""Mamba-2: a state space whose decay is one number a head and token."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from planner.formulas.recurrence import linear_attention_flops
from planner.inputs.record import Flag, Positive
from planner.inputs.recurrent import Product, RecurrentMixer


class Mamba2(RecurrentMixer):
    """Mamba-2: heads of ``head_dim`` with a state of ``state`` each, inputs and outputs shared by groups.

    Without ``gated_norm`` a gate alone follows the scan, as in most of Falcon-H1.

    References
    ----------
    .. [1] T. Dao, A. Gu, "Transformers are SSMs," arXiv:2405.21060, 2024, sec. 7.
    .. [2] NVIDIA, Megatron-LM d98e8a64, ``megatron/core/ssm/mamba_mixer.py``.
    """

    kind: Literal["mamba2"] = "mamba2"
    heads: Positive
    head_dim: Positive
    groups: Positive = 1
    state: Positive = 128
    chunk: Positive = 256
    conv_bias: Flag = True
    bias: Flag = False
    gated_norm: Flag = True

    @model_validator(mode="after")
    def _check(self) -> Mamba2:
        if self.heads % self.groups:
            raise ValueError(f"heads ({self.heads}) that groups ({self.groups}) divides")
        return self

    @property
    def state_heads(self) -> int:
        """Heads. [-]"""
        return self.heads

    @property
    def state_groups(self) -> int:
        """Groups of heads that share inputs and outputs of the state. [-]"""
        return self.groups

    @property
    def qk_head_dim(self) -> int:
        """Width of a head's state. [element]"""
        return self.state

    @property
    def value_head_dim(self) -> int:
        """Width of one head. [element]"""
        return self.head_dim

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim

    @property
    def conv_width(self) -> int:
        """Channels: the inner width, and inputs and outputs of the state. [element]"""
        return self._inner + 2 * self.groups * self.state

    @property
    def divided_params(self) -> int:
        """Convolution; decay rate, skip and bias of the step; the norm of the result. [element]"""
        normed = self.gated_norm * self._inner
        return self.conv_width * (self.conv_kernel + self.conv_bias) + 3 * self.heads + normed

    @property
    def whole_params(self) -> int:
        """None. [element]"""
        return 0

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Gate, inner width, inputs and outputs of the state and steps in one; the result."""
        width = self._inner + self.conv_width + self.heads
        return (
            Product("mixer_in", hidden, width, "columns", self.bias),
            Product("mixer_out", self._inner, hidden, "rows", self.bias),
        )

    @property
    def scan_flops(self) -> float:
        """FLOPs of the scan for one token and head, forward. [FLOP]"""
        sharing = self.heads / self.groups
        return float(linear_attention_flops(self.state, self.head_dim, self.chunk, sharing))

    @property
    def scan_elements(self) -> float:
        """Elements: the head three times, states of chunks in fp32 four times, what groups share. [element]

        References
        ----------
        .. [1] state-spaces, ``mamba_ssm/ops/triton/ssd_combined.py``: states of chunks, their passing, scan.
        """
        sharing = self.heads / self.groups
        shared = (4.0 * self.state + 4.0 * self.chunk) / sharing
        return 3.0 * self.head_dim + 8.0 * self.state * self.head_dim / self.chunk + shared

    @property
    def model_flops(self) -> float:
        """Seven for each element of the state (``mamba_layer_flops``). [FLOP]"""
        return 7.0 * self._inner * self.state

    @property
    def around(self) -> float:
        """The gated norm of the result, or its gate: two read, one written. [element]"""
        return (5.0 if self.gated_norm else 3.0) * self._inner

    @property
    def kept(self) -> float:
        """The scan's result and what the last product reads; the rest is computed again. [element]

        References
        ----------
        .. [1] state-spaces, ``mamba_ssm/ops/triton/ssd_combined.py``, ``MambaSplitConv1dScanCombinedFn``.
        """
        return 2.0 * self._inner
