"""An encoder of images before a language model: what it looks at, its layers, and how it hands over."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from planner.inputs.blocks import Block
from planner.inputs.layers import BlockName, layer_faults, parse_layers
from planner.inputs.record import Count, Flag, Positive, Record


class Linear(Record):
    """A product with a matrix of weights."""

    inputs: Positive
    outputs: Positive
    bias: Flag = False

    @property
    def params(self) -> int:
        """Weights and biases. [element]"""
        return (self.inputs + self.bias) * self.outputs


class Before(Linear):
    """A product before the stem, on ``rows`` for one of the stem's."""

    rows: Positive = 1


class Projector(Record):
    """What makes tokens of the language model of an encoder's rows: products, and weights beside them.

    ``norm_params`` are those of norms, and of a row that ends a line of an image.
    """

    linears: tuple[Linear, ...] = Field(min_length=1, max_length=8)
    norm_params: Count = 0

    @property
    def params(self) -> int:
        """Parameters. [element]"""
        return self.norm_params + sum(one.params for one in self.linears)


class Encoder(Record):
    """Layers that see the patches of an image, all of them at once, before the language model's first layer.

    Or the frames of a clip of sound. ``stem`` is the product that makes a patch a row of ``hidden``, after
    those ``before`` it; ``patches`` are those of an image as
    training sees it, of which ``merge`` become one token. ``norms`` stand beside the layers; ``projectors``
    are several where results of inner layers are handed over too, those of ``handed``, in this order.
    An encoder of text has no stem: its ``patches`` are tokens of the decoder's own table. One that the
    decoder's layers attend to has no projectors.
    """

    name: str = Field(default="vision", min_length=1, max_length=200)
    source: str = ""
    hidden: Positive
    norm: Literal["rmsnorm", "layernorm"] = "layernorm"
    norm_bias: Flag = True
    norms: Count = 0
    blocks: dict[BlockName, Block]
    layers: tuple[str, ...] = Field(min_length=1, max_length=1000)
    before: tuple[Before, ...] = Field(default=(), max_length=8)
    stem: Linear | None = None
    positions: Count = 0
    patches: Positive
    merge: Positive = 1
    handed: tuple[Count, ...] = ()
    projectors: tuple[Projector, ...] = Field(default=(), max_length=16)

    @field_validator("layers", mode="before")
    @classmethod
    def _layers(cls, raw: Any) -> Any:
        return parse_layers(raw) if isinstance(raw, str) else raw

    @model_validator(mode="after")
    def _check(self) -> Encoder:
        if faults := layer_faults(self.layers, "", self.blocks):
            raise ValueError("; ".join(faults))
        if self.handed and (max(self.handed) >= len(self.layers) or len(self.handed) >= len(self.projectors)):
            raise ValueError(
                f"layers before {len(self.layers)} in handed, and a projector for each and the last"
            )
        return self

    @property
    def norm_params(self) -> int:
        """Parameters of one norm. [element]"""
        return self.hidden * (2 if self.norm_bias else 1)

    @cached_property
    def params(self) -> int:
        """Parameters, those of the projectors among them. [element]"""
        layers = sum(self.blocks[name].params(self.hidden, self.norm_params) for name in self.layers)
        stem = self.stem.params if self.stem else 0
        ends = stem + self.positions * self.hidden + self.norms * self.norm_params
        first, last = (sum(one.params for one in self.before), sum(one.params for one in self.projectors))
        return first + layers + ends + last
