"""Mamba-1: a state space whose decay is one number a channel, state and token."""

from __future__ import annotations

from typing import Literal

from planner.inputs.record import Flag, Positive
from planner.inputs.recurrent import Product, RecurrentMixer


class Mamba1(RecurrentMixer):
    """Mamba-1: ``inner`` channels with ``state`` numbers each; their steps come through a narrow product.

    ``norms`` of steps, inputs and outputs of the state: none (Mamba), with weights (Jamba), or bare
    (Falcon Mamba).

    References
    ----------
    .. [1] A. Gu, T. Dao, "Mamba," arXiv:2312.00752, 2023, sec. 3.
    .. [2] Hugging Face, Transformers v5.24.0, ``models/mamba``, ``falcon_mamba`` and ``jamba``.
    """

    kind: Literal["mamba1"] = "mamba1"
    inner: Positive
    state: Positive = 16
    step_rank: Positive
    norms: Literal["none", "weights", "bare"] = "none"
    conv_bias: Flag = True
    bias: Flag = False

    @property
    def state_heads(self) -> int:
        """Channels. [-]"""
        return self.inner

    @property
    def state_groups(self) -> int:
        """Channels: inputs and outputs of the state belong to all of them, and every rank has them. [-]"""
        return self.inner

    @property
    def qk_head_dim(self) -> int:
        """Numbers of a channel's state. [element]"""
        return self.state

    @property
    def value_head_dim(self) -> int:
        """One channel. [element]"""
        return 1

    @property
    def conv_width(self) -> int:
        """Channels. [element]"""
        return self.inner

    @property
    def divided_params(self) -> int:
        """Convolution, decay rates and skip. [element]"""
        return self.inner * (self.conv_kernel + self.conv_bias + self.state + 1)

    @property
    def whole_params(self) -> int:
        """Norms of steps, inputs and outputs of the state. [element]"""
        return (self.step_rank + 2 * self.state) * (self.norms == "weights")

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Channels and gate; steps, inputs and outputs of the state; a step for each channel; the result.

        Where nothing stands between them, one function computes the steps again in backward
        (state-spaces/mamba 1200d6e9, ``mamba_ssm/ops/selective_scan_interface.py``, ``MambaInnerFn``).
        """
        apart = self.norms == "weights"
        return (
            Product("mixer_in", hidden, 2 * self.inner, "columns", self.bias),
            Product("state_in", self.inner, self.step_rank + 2 * self.state, "rows"),
            Product("step_up", self.step_rank, self.inner, "columns", True, kept=apart),
            Product("mixer_out", self.inner, hidden, "rows", self.bias),
        )

    @property
    def scan_flops(self) -> float:
        """Nine for each number of a channel's state (VMamba, ``flops_selective_scan_fn``). [FLOP]"""
        return 9.0 * self.state

    @property
    def scan_elements(self) -> float:
        """Elements of a channel: input, step and gate read; the result, gated and not. [element]"""
        return 5.0

    @property
    def model_flops(self) -> float:
        """Nine for each number of the state, and the convolution. [FLOP]"""
        return (9.0 * self.state + 2.0 * self.conv_kernel) * self.inner

    @property
    def around(self) -> float:
        """Norms of what is narrow; the gate is part of the scan. [element]"""
        return 2.0 * (self.step_rank + 2 * self.state) * (self.norms != "none")

    @property
    def kept(self) -> float:
        """The scan's result; where the steps have norms with weights also its input and the gated result."""
        return self.inner * (3.0 if self.norms == "weights" else 1.0)
