"""What mixers that pass a state along the sequence have in common; each kind is a file of `mixers`."""

from __future__ import annotations

from abc import abstractmethod
from typing import Literal, NamedTuple

from planner.inputs.record import Positive, Record

Split = Literal["columns", "rows", "none"]
"""How tensor parallelism divides a product's weights: by outputs, by inputs, or not at all."""


NORMED = 5.0
"""Elements that a norm with a gate reads and writes for one, where it is one kernel. [element]"""


class Product(NamedTuple):
    """One linear layer of a mixer."""

    name: str
    """As operators and rules call it."""
    inputs: int
    outputs: int
    """Its width on either side, all ranks together. [element]"""
    split: Split
    """How tensor parallelism divides it."""
    bias: bool = False
    """Whether it has one."""
    kept: bool = True
    """Whether its result is kept for backward, not made again."""

    @property
    def params(self) -> int:
        """Parameters. [element]"""
        return self.inputs * self.outputs + self.bias * self.outputs


class RecurrentMixer(Record):
    """A mixer without attention over the sequence: projections, a short convolution, a chunked scan.

    Tensor parallelism divides ``heads``, and with them ``kv_heads``, the groups of heads that share queries
    and keys. A group of context-parallel ranks turns its part of the sequence with all heads into all of it
    with some of them, and back, unless it passes states on (`techniques.states`).
    """

    conv_kernel: Positive = 4
    chunk: Positive = 64

    @property
    def window(self) -> None:
        """Nothing: the state reaches back over the whole sequence."""
        return

    @property
    def has_scan(self) -> bool:
        """Whether a state passes along the whole sequence, not the last few tokens alone."""
        return True

    @property
    @abstractmethod
    def state_heads(self) -> int:
        """Heads with a state of their own: those that tensor parallelism divides. [-]"""

    @property
    @abstractmethod
    def state_groups(self) -> int:
        """Groups of heads that share queries and keys. [-]"""

    @property
    @abstractmethod
    def qk_head_dim(self) -> int:
        """Width of one query or key head. [element]"""

    @property
    @abstractmethod
    def value_head_dim(self) -> int:
        """Width of one value head. [element]"""

    @property
    def only_decays(self) -> bool:
        """Whether tokens only scale an earlier state and add to it, so that ranks can merge their parts."""
        return True

    @property
    @abstractmethod
    def conv_width(self) -> int:
        """Channels of the short convolution, none where there is none. [element]"""

    @property
    @abstractmethod
    def divided_params(self) -> int:
        """Parameters outside of products that go with the heads. [element]"""

    @property
    @abstractmethod
    def whole_params(self) -> int:
        """Parameters outside of products that every rank has. [element]"""

    @abstractmethod
    def products(self, hidden: int) -> tuple[Product, ...]:
        """Linear layers, the one that reads the residual stream first, the one that ends the mixer last."""

    @property
    @abstractmethod
    def scan_flops(self) -> float:
        """FLOPs of the scan for one token and head, forward. [FLOP]"""

    @property
    @abstractmethod
    def scan_elements(self) -> float:
        """Elements that the scan's kernels read and write for one token and head, forward. [element]"""

    @property
    def slowdown(self) -> float:
        """Time of the scan's kernels over that of the gated delta rule's at equal work. [-]

        One where no public table times them: they are then taken to reach the same.
        """
        return 1.0

    @property
    @abstractmethod
    def model_flops(self) -> float:
        """FLOPs of the recurrence for one token, all heads, as Megatron-LM counts them, forward. [FLOP]"""

    @property
    @abstractmethod
    def around(self) -> float:
        """Elements that kernels around the scan read or write for one token, convolution aside. [element]"""

    @property
    @abstractmethod
    def kept(self) -> float:
        """Elements kept for backward of one token beside what the first product writes. [element]"""

    @property
    def copied(self) -> int:
        """Elements of one token's queries and keys, if copied for each head of values. [element]"""
        return 0

    @property
    def normed(self) -> int:
        """Elements of one token that pass through a norm with a gate, maybe a chain of kernels. [element]"""
        return 0

    def params(self, hidden: int) -> int:
        """Parameters. [element]"""
        products = sum(product.params for product in self.products(hidden))
        return products + self.divided_params + self.whole_params


class EqualHeads(RecurrentMixer):
    """One whose queries, keys and values have as many heads, all of one width."""

    heads: Positive
    head_dim: Positive

    @property
    def state_heads(self) -> int:
        """Heads. [-]"""
        return self.heads

    @property
    def state_groups(self) -> int:
        """As many: no head shares its queries and keys. [-]"""
        return self.heads

    @property
    def qk_head_dim(self) -> int:
        """Width of one head. [element]"""
        return self.head_dim

    @property
    def value_head_dim(self) -> int:
        """Width of one head. [element]"""
        return self.head_dim

    @property
    def _inner(self) -> int:
        return self.heads * self.head_dim
