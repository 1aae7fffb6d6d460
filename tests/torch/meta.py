"""Models of the library on meta tensors, which have shapes and no values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

FILLED = (nn.Linear, nn.Embedding, nn.LayerNorm, nn.modules.conv._ConvNd)
"""Modules that draw their weights when they are made: a third of the time that a model takes."""


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Make modules on meta tensors, and draw no weights for them."""
    own = [kind.reset_parameters for kind in FILLED]
    for kind, method in zip(FILLED, own, strict=True):
        kind.reset_parameters = _unless_empty(method)
    try:
        with torch.device("meta"):
            yield
    finally:
        for kind, method in zip(FILLED, own, strict=True):
            kind.reset_parameters = method


def _unless_empty(method: Callable[[Any], None]) -> Callable[[Any], None]:
    """Draw nothing, but for weights without an element, of which PyTorch warns: no model has such."""

    def reset(module: Any) -> None:
        weight = module._parameters["weight"]
        if weight is not None and not weight.numel():
            method(module)

    return reset
