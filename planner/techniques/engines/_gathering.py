"""Weights gathered layer by layer or module by module, gradients reduced as they come."""

from __future__ import annotations

from planner.numeric import Num, maximum
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step


def gathering_moments(step: Step) -> Moments:
    """Return the moments of sharded weights.

    Three compete: the loss, or the head's own gradient, with the head gathered; the backward of the last
    layers, with all activations, two gathered layers and one whole gradient to be reduced; that of the first,
    with the embedding gathered next and all gradients there. In the first micro-batch of a step the gradients
    of the step before are gone.
    """
    passes, earlier, reduced = step.passes, step.earlier_gradients, step.unreduced
    latest = late_gradients(step, earlier)
    layer, inside = passes.gathered_layer, passes.rebuilt
    loss = passes.activations + head_bytes(step) + earlier
    last = passes.activations + inside + beside_bytes(step) + reduced + latest + 2 * layer
    following = layer + maximum(passes.gathered_embedding, layer)
    first = passes.one_layer + inside + following + reduced + step.gradients
    return (
        Moment("the first layer's backward", "backward", first, passes.one_layer, step.gradients),
        Moment("the last layers' backward", "backward", last, passes.activations, latest),
        Moment("the loss", "loss", loss, passes.activations, earlier),
    )


def late_gradients(step: Step, earlier: Num) -> Num:
    """Bytes of gradients while activations are at their peak: more where those of some layers come back."""
    grown = step.passes.grown
    return earlier if grown is None else maximum(earlier, step.gradients * grown)


def beside_bytes(step: Step) -> Num:
    """Bytes of the loss and of the gathered head, where they are still there in a layer's backward."""
    return (step.passes.loss + step.passes.gathered_head) * step.loss_beside


def head_bytes(step: Step) -> Num:
    """Bytes at a sharded head beside activations: the loss, or the head's gradient if that is larger.

    That is there in 16 bit, once more to be reduced, and as the rank's own part. Where the loss comes in
    parts, the gradients of all are summed as they will be reduced, beside the logits of the last.
    """
    passes = step.passes
    parts = GATHERED_BYTES + step.reduce_bytes + step.gradient_bytes / step.plan.zero_shards
    summed = (GATHERED_BYTES + step.reduce_bytes) * passes.head * step.loss_in_parts
    return passes.gathered_head + maximum(passes.loss + summed, passes.head * parts)
