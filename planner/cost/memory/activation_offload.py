"""What is saved by the layers of a stage, and what it costs to keep some of it on the host."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from planner import numeric
from planner.cost.case import Case
from planner.cost.layer.layer_costs import LayerCost
from planner.cost.stages import ENDS, Piece, Stages
from planner.cost.step.layout import piece_costs, priced_layers
from planner.dataclasses import dataclass, replace
from planner.formulas.activation_offload import copied_bytes, device_bytes, offloaded_layers
from planner.numeric import Num, ceil, maximum, where
from planner.plan import Plan
from planner.techniques.engines.family import PassBytes


@dataclass(frozen=True)
class LayerPasses:
    """All layers of each stage, its ends left out, for one micro-batch on one rank."""

    count: Num
    """Layers. [-]"""
    saved: Num
    """What they keep for backward. [byte]"""
    forward: Num
    backward: Num
    """Their passes. [s]"""
    copied: Num = 0.0
    leaves: Num = 0.0
    """Of what they keep, what goes to the host as inputs of modules, and what leaves the device. [byte]"""
    routed: Num = 0.0
    """Bytes that tokens take beyond the fast links in each pass. [byte]"""

    def sent(self, case: Case) -> Num:
        """What may go to the host: all that is kept, or inputs of modules. [byte]"""
        return self.copied if case.offload.modules else self.saved

    def freed(self, case: Case) -> Num:
        """What of it leaves the device. [byte]"""
        return self.leaves if case.offload.modules else self.saved


def layer_passes(costs: Mapping[Piece, LayerCost], stages: Stages) -> LayerPasses:
    """Return the layers of each stage."""
    many: Num = 0.0
    saved: Num = 0.0
    forward: Num = 0.0
    seconds: Num = 0.0
    copied: Num = 0.0
    leaves: Num = 0.0
    routed: Num = 0.0
    for piece, count in stages.counts.items():
        if piece[0] not in ENDS:
            cost = costs[piece]
            many = many + count
            saved = saved + count * cost.held
            forward = forward + count * cost.forward
            seconds = seconds + count * cost.seconds
            copied = copied + count * cost.copied
            leaves = leaves + count * cost.leaves
            routed = routed + count * cost.routed
    return LayerPasses(many, saved, forward, seconds - forward, copied, leaves, routed)


def bytes_beside_host(case: Case, plan: Plan, nbytes: PassBytes, layers: LayerPasses, rank: Num) -> PassBytes:
    """Return what the passes need on the device where the saved tensors of some layers go to the host.

    Gradients of as many layers are there before the last of their tensors is back.
    """
    chunks = case.schedule.chunks_alive(plan.pp, plan.vpp, plan.num_microbatches, rank)
    freed = layers.freed(case)
    gone = (freed - device_bytes(freed, layers.count, case.offload.layers)) * (chunks / plan.vpp)
    moved = offloaded_layers(layers.count, case.offload.layers)
    grown = moved / np.maximum(layers.count, 1.0)
    return replace(nbytes, activations=maximum(nbytes.activations - gone, 0.0), grown=grown)


def chunks_on_device(case: Case, plan: Plan, layers: LayerPasses, rank: Num) -> Num:
    """Chunks whose activations are on the device at the peak where the schedule sends some to the host. [-]

    Where copies both ways outlast the passes of all chunks, as if none left; a chunk counts as the largest.
    """
    schedule, degrees = case.schedule, (plan.pp, plan.vpp, plan.num_microbatches)
    flying = schedule.chunks_alive(*degrees, rank)
    if schedule.on_device_chunks is None:
        return flying
    kept = schedule.on_device_chunks(*degrees, rank)
    largest = ceil(layers.count / plan.vpp) * plan.vpp / maximum(layers.count, 1.0)
    return where(copied_share(case, plan, layers) <= 1.0, kept, flying) * largest


def copied_share(case: Case, plan: Plan, layers: LayerPasses) -> Num:
    r"""Time of a schedule's copies to the host and back over that of the passes that hide them. [-]

    References
    ----------
    .. [1] X. Wan et al., "PipeOffload," arXiv:2503.01328, sec. 2: k, of the chunks that are copied.
    """
    moved = 2.0 * layers.saved * (case.schedule.offloaded_chunks(plan.vpp) / plan.vpp) / case.host_copy
    return moved / (layers.forward + layers.backward)


def host_activation_bytes(case: Case, plan: Plan, layers: LayerPasses | None = None) -> Num:
    """Bytes that one rank's layers keep in host memory at most, of all its micro-batches in flight. [byte]

    Where the ``layers`` of its stages are not priced yet, a stage is one of the largest, of mean layers.
    """
    held = layers or _largest_stage(case, plan)
    chunks = case.schedule.chunks_alive(plan.pp, plan.vpp, plan.num_microbatches, 0.0 * plan.pp)
    moved = copied_bytes(held.sent(case), held.count, case.offload.layers)
    most_moved = numeric.max(moved) if layers else moved
    return most_moved * (chunks / plan.vpp)


def _largest_stage(case: Case, plan: Plan) -> LayerPasses:
    """Return the layers of a stage that has as many as any, all of them the mean of the model's."""
    model = case.model
    again = case.recompute.layers > 0
    counts = {
        (name, again): np.asarray(float(model.layers.count(name))) for name in sorted(set(model.layers))
    }
    costs = piece_costs(case, plan, priced_layers(case, plan, counts), counts)
    every = layer_passes(costs, Stages(counts, np.asarray(0.0)))
    count = ceil(model.num_layers / (plan.pp * plan.vpp)) * plan.vpp
    share = count / model.num_layers
    _, *sizes = vars(every).values()
    return LayerPasses(count, *(one * share for one in sizes))
