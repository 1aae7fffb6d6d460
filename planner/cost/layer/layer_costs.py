"""What a layer, or an end of the model, costs: records that stages and steps add up."""

from __future__ import annotations

from collections.abc import Mapping

from planner.cost.stages import ENDS, Piece, Stages
from planner.dataclasses import dataclass
from planner.numeric import Num


@dataclass(frozen=True)
class LayerCost:
    """One layer, or an end of the model, for one micro-batch on one rank.

    Parameters
    ----------
    seconds : Num
        Compute and exposed communication of all passes. [s]
    forward, weight_gradient, again : Num
        Of these, the forward pass, what no other pass waits for, and what runs again. [s]
    held : Num
        Bytes kept from forward to backward. [byte]
    rebuilt : Num
        Bytes that exist besides while the layer's backward runs: what recompute makes again, and the
        gradient of its widest result. [byte]
    stored, expert_stored : Num
        Bytes of weights at rest, outside and inside routed experts. [byte]
    trained, expert_trained : Num
        Weights that learn. [element]
    product : Num
        Weights of the largest product, where `needs_product`. [element]
    scores, graphed : Num
        Of ``held``, attention's scores, which the input gradient is the last to need, and what lies in the
        memory of a feed-forward's CUDA graph. [byte]
    copied, leaves : Num
        Of ``held``, what is copied to the host as inputs of modules, and what leaves the device. [byte]
    routed : Num
        Bytes that tokens take beyond the fast links in each pass. [byte]
    """

    seconds: Num
    forward: Num
    weight_gradient: Num
    again: Num
    held: Num
    rebuilt: Num
    stored: Num
    expert_stored: Num
    trained: Num
    expert_trained: Num
    product: Num = 0.0
    scores: Num = 0.0
    graphed: Num = 0.0
    copied: Num = 0.0
    leaves: Num = 0.0
    routed: Num = 0.0


@dataclass(frozen=True)
class LayerDetail:
    """What an estimate tells of a layer beside its cost.

    Parameters
    ----------
    compute, recompute : Num
        Time of all passes on the device, and of that what runs again. [s]
    tp, cp, ep : Num
        Exposed communication of all passes. [s]
    tp_sent, cp_sent, ep_sent : Num
        Bytes one rank sends in all passes. [byte]
    flops, recompute_flops : Num
        FLOPs of the products forward, and of those that run again. [FLOP]
    params, expert_params : Num
        Weights on the rank. [element]
    extrapolated : Num
        Seconds of all passes from outside the curves' fitted ranges. [s]
    """

    compute: Num
    recompute: Num
    tp: Num
    cp: Num
    ep: Num
    tp_sent: Num
    cp_sent: Num
    ep_sent: Num
    flops: Num
    recompute_flops: Num
    params: Num
    expert_params: Num
    extrapolated: Num


def stage_sum(costs: Mapping[Piece, LayerCost], stages: Stages, field: str, ends: bool | None = None) -> Num:
    """Sum of a field over the layers and ends of each stage, or over one of both alone."""
    result: Num = 0.0
    for piece, count in stages.counts.items():
        if ends is None or (piece[0] in ENDS) == ends:
            result = result + count * getattr(costs[piece], field)
    return result
