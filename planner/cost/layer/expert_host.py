"""Host time of layers with experts: what launching them takes, and how much of it the device waits for."""

from __future__ import annotations

from planner.cost.layer.graphs import router_is_graphed
from planner.cost.layer.operators import Pricer
from planner.formulas.experts import expert_host_seconds
from planner.inputs.model import DenseFfn, Experts
from planner.numeric import Num, where


def local_experts(pricer: Pricer, ffn: DenseFfn | Experts | None) -> Num:
    """Experts of a feed-forward on one rank; 0 where it has none. [-]"""
    return ffn.experts / pricer.plan.ep if isinstance(ffn, Experts) else 0.0


def expert_floor_seconds(pricer: Pricer, experts: Num, beside: float = 0.0) -> Num:
    """Host time of a layer with so many local experts, both passes; ``beside`` is that of other parts. [s]

    Launches of many experts are what the host does longest; of few, what the rest of the layer takes.
    """
    traits = pricer.case.traits
    if traits.experts.static or pricer.case.graphs.whole:
        return 0.0
    least = 0.0 if router_is_graphed(pricer.case) else traits.experts.layer_host_seconds + beside
    return expert_host_seconds(experts, traits.experts.host_seconds, least)


def host_floor_and_idle(pricer: Pricer, experts: Num) -> tuple[Num, Num]:
    """Host time of a layer with so many local experts, both passes: its floor, and an idle device's part. [s]

    A host that waits for the counts of two micro-batches in turn, one of which is sent while the other
    computes, launches no expert ahead of the device: those launches add to the device's time, and the layer's
    others are still no more than its floor. Experts that are whole on each rank send nothing, so that nothing
    runs beside it, whatever is set. Where attention and router are graphs it runs ahead, but for an
    all-to-all, whose counts it reads between two graphs to split it.
    """
    traits, waits = pricer.case.traits, clamp_waits_seconds(pricer, experts)
    floor = expert_floor_seconds(pricer, experts)
    ahead = not pricer.case.dispatcher.waits_for_counts and router_is_graphed(pricer.case)
    if not traits.experts.overlaps or traits.experts.static or ahead or pricer.case.graphs.whole:
        return floor, waits
    launched = expert_host_seconds(experts, traits.experts.host_seconds, 0.0)
    return floor, where(pricer.plan.ep > 1, launched, 0.0) + waits


def clamp_waits_seconds(pricer: Pricer, experts: Num) -> Num:
    """Seconds of a layer that the device idles for a second wait in it: where experts' gates are bounded.

    The bound's offset is copied from memory that is not pinned: the host waits for the device in the midst of
    the experts, so that what it launches for their forward pass, a third of both, is launched no further
    ahead. A graph of all passes, or compiled code, has no such wait.

    References
    ----------
    .. [1] Megatron-LM, ``megatron/core/fusions/fused_bias_geglu.py``, ``weighted_bias_quick_geglu_impl``:
       ``torch.tensor(linear_offset, device=...)`` in every layer.
    """
    traits = pricer.case.traits
    if (
        pricer.case.model.numerics.activation != "swiglu_oai"
        or pricer.case.graphs.whole
        or traits.kernels.compiled
    ):
        return 0.0
    return expert_host_seconds(experts, traits.experts.host_seconds, 0.0) / 3.0
