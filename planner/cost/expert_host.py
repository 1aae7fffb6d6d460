"""Host time of layers with experts: what launching them takes, and how much of it the device waits for."""

from __future__ import annotations

from planner.cost.operators import Pricer
from planner.formulas.experts import expert_host_seconds
from planner.inputs.model import DenseFfn, Experts
from planner.numeric import Num


def local_experts(pricer: Pricer, ffn: DenseFfn | Experts) -> Num:
    """Experts of a feed-forward on one rank; 0 where it has none. [-]"""
    return ffn.experts / pricer.plan.ep if isinstance(ffn, Experts) else 0.0


def expert_floor_seconds(pricer: Pricer, experts: Num) -> Num:
    """Host time of a layer with so many local experts, both passes. [s]"""
    traits = pricer.case.traits
    if traits.static_experts:
        return 0.0
    return expert_host_seconds(experts, traits.expert_host_seconds, traits.expert_layer_host_seconds)


def host_floor_and_idle(pricer: Pricer, experts: Num) -> tuple[Num, Num]:
    """Host time of a layer with so many local experts, both passes: its floor, and an idle device's part. [s]

    A host that waits for the counts of two micro-batches in turn, one of which is sent while the other
    computes, launches no expert ahead of the device: those launches add to the device's time, and the layer's
    others are still no more than its floor. Where attention and router are graphs it runs ahead, but for an
    all-to-all, whose counts it reads between two graphs to split it.
    """
    traits = pricer.case.traits
    floor = expert_floor_seconds(pricer, experts)
    ahead = traits.dispatcher == "fused" and not traits.expert_layer_host_seconds
    if not traits.overlaps_experts or traits.static_experts or ahead:
        return floor, 0.0
    return floor, expert_host_seconds(experts, traits.expert_host_seconds, 0.0)
