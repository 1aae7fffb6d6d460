"""Parts of a block that is no mixer and feed-forward: products, attention and pointwise operators in order.

Each says on which rows it works, so that a block may hold two streams (latents and text) with weights of
their own, joint or cross attention, and what is made of one vector a sample.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from planner.inputs.record import Count, Flag, Positive, Record

Rows = Literal["latents", "text", "all", "frame-text", "sample"]
"""Tokens of an image or video, of its text, both, of a text for each frame, or one row a sample."""

Axis = Literal["space", "time"]


class ProductPart(Record):
    """A product with a matrix of weights; it keeps its input, unless another part keeps the same tensor."""

    kind: Literal["product"]
    rows: Rows
    inputs: Positive
    outputs: Positive
    bias: Flag = True
    keeps: Flag = True

    @property
    def params(self) -> int:
        """Weights and biases. [element]"""
        return (self.inputs + self.bias) * self.outputs


class CorePart(Record):
    """The core of attention, each query over all keys, or over those of its frame or of its place alone."""

    kind: Literal["core"]
    queries: Rows
    keys: Rows
    heads: Positive
    head_dim: Positive
    axis: Axis | None = None

    @property
    def params(self) -> int:
        """None. [element]"""
        return 0

    @property
    def width(self) -> int:
        """Width of queries, keys or values. [element]"""
        return self.heads * self.head_dim


class PointwisePart(Record):
    """An operator bound by memory, or parameters alone (``table``); ``fp32`` where it has a wider copy."""

    kind: Literal["norm", "modulate", "gate", "activation", "rotary", "add", "loss", "table"]
    rows: Rows
    width: Positive
    params: Count = 0
    fp32: Flag = False


Part = Annotated[ProductPart | CorePart | PointwisePart, Field(discriminator="kind")]


class ProductExtra(Record):
    """A product beside a layer's mixer and feed-forward, whole on every rank; it keeps its input."""

    kind: Literal["product"] = "product"
    inputs: Positive
    outputs: Positive
    bias: Flag = False

    @property
    def params(self) -> int:
        """Weights and biases. [element]"""
        return (self.inputs + self.bias) * self.outputs

    @property
    def weights(self) -> int:
        """Weights that a token meets in it. [element]"""
        return self.inputs * self.outputs


class OtherExtra(Record):
    """An operator of a model of one's own that no known part has, by what a token costs in it."""

    kind: Literal["other"] = "other"
    """What tells it from known parts."""
    name: str = Field(min_length=1, max_length=200)
    """As PyTorch calls it."""
    moved: Count = 0
    """Elements read and written. [element]"""
    kept: Count = 0
    """Elements kept for backward. [element]"""
    flops: Count = 0
    """FLOPs forward. [FLOP]"""
    params: Count = 0
    """Its parameters. [element]"""

    @property
    def weights(self) -> float:
        """Weights of a product with as many FLOPs. [element]"""
        return self.flops / 2.0


Extra = Annotated[ProductExtra | OtherExtra, Field(discriminator="kind")]
