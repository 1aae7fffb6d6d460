"""What a layer, or an end of the model, costs: records that stages and steps add up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from planner.cost.stages import ENDS, Piece, Stages
from planner.dataclasses import dataclass, fields
from planner.numeric import Num


@dataclass(frozen=True)
class LayerCost:
    """One layer, or an end of the model, for one micro-batch on one rank."""

    seconds: Num
    """Compute and exposed communication of all passes. [s]"""
    forward: Num
    weight_gradient: Num
    again: Num
    """Of these, the forward pass, what no other pass waits for, and what runs again. [s]"""
    held: Num
    """Bytes kept from forward to backward. [byte]"""
    rebuilt: Num
    """Bytes that exist besides while the layer's backward runs: what recompute makes again, and the gradient
    of its widest result. [byte]"""
    stored: Num
    expert_stored: Num
    """Bytes of weights at rest, outside and inside routed experts. [byte]"""
    trained: Num
    expert_trained: Num
    """Weights that learn. [element]"""
    product: Num = 0.0
    """Weights of the largest product, where `needs_product`. [element]"""
    scores: Num = 0.0
    graphed: Num = 0.0
    """Of ``held``, attention's scores, which the input gradient is the last to need, and what lies in the
    memory of a feed-forward's CUDA graph. [byte]"""
    copied: Num = 0.0
    leaves: Num = 0.0
    """Of ``held``, what is copied to the host as inputs of modules, and what leaves the device. [byte]"""
    routed: Num = 0.0
    """Bytes that tokens take beyond the fast links in each pass. [byte]"""


@dataclass(frozen=True)
class LayerDetail:
    """What an estimate tells of a layer beside its cost."""

    compute: Num
    recompute: Num
    """Time of all passes on the device, and of that what runs again. [s]"""
    tp: Num
    cp: Num
    ep: Num
    """Exposed communication of all passes. [s]"""
    tp_sent: Num
    cp_sent: Num
    ep_sent: Num
    """Bytes one rank sends in all passes. [byte]"""
    flops: Num
    recompute_flops: Num
    """FLOPs of the products forward, and of those that run again. [FLOP]"""
    params: Num
    expert_params: Num
    """Weights on the rank. [element]"""
    extrapolated: Num
    """Seconds of all passes from outside the curves' fitted ranges. [s]"""


def stage_sum(costs: Mapping[Piece, LayerCost], stages: Stages, field: str, ends: bool | None = None) -> Num:
    """Sum of a field over the layers and ends of each stage, or over one of both alone."""
    result: Num = 0.0
    for piece, count in stages.counts.items():
        if ends is None or (piece[0] in ENDS) == ends:
            result = result + count * getattr(costs[piece], field)
    return result


def taken(cost: LayerCost, index: NDArray[np.intp]) -> LayerCost:
    """Return the cost of the plans at ``index``, field by field; what all share stays a number."""
    values = (np.asarray(getattr(cost, field.name), float) for field in fields(cost))
    return LayerCost(*(one.take(index) if one.ndim else float(one) for one in values))
