"""Inputs of recomputed layers in host memory: bytes of both memories, and seconds."""

from __future__ import annotations

import numpy as np

from planner.cost.case import Case
from planner.cost.memory.activation_offload import LayerPasses
from planner.dataclasses import replace
from planner.formulas.host_checkpoints import fetched_seconds, hosted_checkpoints
from planner.numeric import Num, maximum, minimum
from planner.plan import Plan
from planner.techniques.engines.family import PassBytes

INPUT_BYTES = 2.0
"""Bytes of an element of a layer's input. [byte]"""


def hosts_checkpoints(case: Case) -> bool:
    """Whether the inputs of all layers wait on the host: they are recomputed whole, and it is switched on."""
    return case.traits.recompute.host_checkpoints and case.recompute.whole_layer


def bytes_beside_checkpoints(nbytes: PassBytes, layers: LayerPasses) -> PassBytes:
    """Return what the passes need on the device where the inputs of recomputed layers go to the host.

    What is left of activations does not shrink in backward, so that all gradients are there beside it; what
    the last norm and the loss keep is gone before the first layer's backward, which needs far more.
    """
    kept = minimum(nbytes.activations, layers.saved)
    gone = layers.saved * (hosted_checkpoints(layers.count) / maximum(layers.count, 1.0))
    grown = 1.0 - 1.0 / maximum(layers.count, 1.0)
    return replace(nbytes, activations=maximum(kept - gone, 0.0), grown=grown)


def checkpoint_seconds(case: Case, plan: Plan, layers: LayerPasses) -> Num:
    """Seconds of a step that the copies of inputs are not hidden. [s]"""
    each = maximum(layers.count, 1.0)
    transfer = layers.saved / each / case.host_copy
    return plan.num_microbatches * fetched_seconds(transfer, layers.forward / each, layers.count)


def host_checkpoint_bytes(case: Case, plan: Plan) -> Num:
    """Bytes that all layers of one rank keep in host memory of a micro-batch, without a pipeline. [byte]"""
    if not hosts_checkpoints(case):
        return 0.0 * np.asarray(plan.micro_batch)
    tokens = case.rank_tokens(plan)
    return hosted_checkpoints(float(case.model.num_layers)) * INPUT_BYTES * tokens * case.model.hidden
