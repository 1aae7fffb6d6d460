"""The shapes that the operators of a layer are priced for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from planner.cost.layer.operators import Operator, Pricer
from planner.dataclasses import dataclass, field
from planner.inputs.model import Attention, LatentAttention
from planner.numeric import Num

Product = tuple[float, float, float]
"""Rows, inputs and outputs of a linear layer. [element]"""


@dataclass(frozen=True)
class Shape:
    """What an operator works on."""

    kind: str
    """``linear``, ``elementwise``, ``attention``, ``grouped`` or ``scan``."""
    sizes: Mapping[str, float]
    """Its dimensions by name. [element]"""


@dataclass(frozen=True)
class Recorder(Pricer):
    """Prices operators as always, and keeps the shapes that it is asked for."""

    shapes: dict[str, Shape] = field(default_factory=dict)
    """Name of an operator to its shape; filled while pricing."""

    @property
    def products(self) -> dict[str, Product]:
        """Sizes of the linear layers by name."""
        rows = ((name, shape.sizes) for name, shape in self.shapes.items() if shape.kind == "linear")
        return {name: (sizes["rows"], sizes["inputs"], sizes["outputs"]) for name, sizes in rows}

    def keep(self, name: str, kind: str, **sizes: Any) -> None:
        """Keep the shape of one operator."""
        self.shapes[name] = Shape(kind, {key: float(np.asarray(value)) for key, value in sizes.items()})

    def linear(self, *args: Any, **kwargs: Any) -> Operator:
        """Price a linear layer: name, module, rows, inputs, outputs."""
        self.keep(args[0], "linear", rows=args[2], inputs=args[3], outputs=args[4])
        return super().linear(*args, **kwargs)

    def elementwise(self, *args: Any, **kwargs: Any) -> Operator:
        """Price an operator bound by memory: name, module, elements."""
        self.keep(args[0], "elementwise", elements=args[2])
        return super().elementwise(*args, **kwargs)

    def attention(self, mixer: Attention | LatentAttention, heads: Num, shared: Num = 1.0) -> Operator:
        """Price the attention core: heads of a rank, heads that share keys."""
        seq = self.case.workload.seq_len
        whole = (mixer.window is None or mixer.window >= seq) and self.plan.cp == 1
        self.keep(
            "attention", "attention", batch=self.plan.micro_batch, heads=heads, shared=shared,
            qk_dim=mixer.qk_head_dim, value_dim=mixer.value_head_dim, seq=seq, whole=whole,
        )  # fmt: skip
        return super().attention(mixer, heads, shared)
