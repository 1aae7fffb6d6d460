"""Short convolution: a gate, a causal convolution over a few tokens, and another gate."""

from __future__ import annotations

from typing import Literal

from planner.inputs.record import Flag, Positive
from planner.inputs.recurrent import Product, RecurrentMixer


class ShortConv(RecurrentMixer):
    """A double-gated short convolution of each channel, as LFM2 has it: no state but the last few tokens.

    References
    ----------
    .. [1] Liquid AI, "LFM2 Technical Report," arXiv:2511.23404, 2025, sec. 2.
    .. [2] Hugging Face, Transformers v5.24.0, ``models/lfm2/modular_lfm2.py``, ``Lfm2ShortConv``.
    """

    kind: Literal["short-conv"] = "short-conv"
    width: Positive
    conv_kernel: Positive = 3
    bias: Flag = False

    @property
    def has_scan(self) -> bool:
        """No: the convolution is all that passes tokens on."""
        return False

    @property
    def state_heads(self) -> int:
        """Channels. [-]"""
        return self.width

    @property
    def state_groups(self) -> int:
        """Channels: none shares what gates it. [-]"""
        return self.width

    @property
    def qk_head_dim(self) -> int:
        """None: there is no state. [element]"""
        return 0

    @property
    def value_head_dim(self) -> int:
        """One channel. [element]"""
        return 1

    @property
    def conv_width(self) -> int:
        """Channels. [element]"""
        return self.width

    @property
    def divided_params(self) -> int:
        """The convolution. [element]"""
        return self.width * (self.conv_kernel + self.bias)

    @property
    def whole_params(self) -> int:
        """None. [element]"""
        return 0

    def products(self, hidden: int) -> tuple[Product, ...]:
        """Both gates and what they gate in one; the result."""
        return (
            Product("mixer_in", hidden, 3 * self.width, "columns", self.bias),
            Product("mixer_out", self.width, hidden, "rows", self.bias),
        )

    @property
    def scan_flops(self) -> float:
        """None. [FLOP]"""
        return 0.0

    @property
    def scan_elements(self) -> float:
        """None. [element]"""
        return 0.0

    @property
    def model_flops(self) -> float:
        """Convolution and two gates. [FLOP]"""
        return 2.0 * (self.conv_kernel + 1.0) * self.width

    @property
    def around(self) -> float:
        """Two gates, each of which reads two and writes one. [element]"""
        return 6.0 * self.width

    @property
    def kept(self) -> float:
        """What the convolution reads and writes, and what the last product reads. [element]"""
        return 3.0 * self.width
