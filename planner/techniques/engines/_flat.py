"""FSDP1: embedding, last norm and head, beside the layers, are one parameter of the root."""

from __future__ import annotations

from planner.numeric import Num, maximum, where
from planner.techniques.engines._fsdp import inside_bytes, made_gradients, passed_bytes
from planner.techniques.engines._gathering import beside_bytes, late_gradients
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step


def flat_moments(step: Step) -> Moments:
    """Return the moments of layers that are gathered one by one beside a root that stays gathered.

    The root is not freed after forward, and its gradient is whole before any of it is reduced: the head's
    part waits through all of backward for the embedding's. Four compete: the loss, or the head's gradient;
    the backward of the last layers and of the first, with two gathered; and the root's end.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/fsdp/_runtime_utils.py``, ``_post_forward_reshard`` (the root is
       left as it is) and ``_post_backward_hook``; ``_flat_param.py``: views of one parameter, whose gradient
       is made when all of theirs are.
    """
    passes, earlier, reduced = step.passes, step.earlier_gradients, step.unreduced
    latest, inside, made = late_gradients(step, earlier), inside_bytes(step), made_gradients(step, earlier)
    root, waiting, layer = root_bytes(step), GATHERED_BYTES * passes.head, passes.gathered_layer
    body = (step.gathered - root) * step.sharding.keeps_gathered
    loss = passes.activations + root + maximum(passes.loss, waiting) + earlier + body
    beside = beside_bytes(step) - passes.gathered_head * step.loss_beside
    last = passes.activations + inside + beside + root + waiting + latest
    last = last + maximum(0.0, passed_bytes(step, reduced, earlier)) + maximum(2 * layer, body)
    first = passes.one_layer + inside + 2 * layer + reduced + made + root + waiting
    ending = root + joined_bytes(step) + step.gradients
    return (
        Moment("the first layer's backward", "backward", first, passes.one_layer, made),
        Moment("the embedding's backward", "backward", ending, passes.one_layer, step.gradients),
        Moment("the last layers' backward", "backward", last, passes.activations, latest),
        Moment("the loss", "loss", loss, passes.activations, earlier),
    )


def root_bytes(step: Step) -> Num:
    """Bytes of the gathered root: a tied table once."""
    return step.passes.gathered_head + step.passes.gathered_embedding * (not step.tied)


def joined_bytes(step: Step) -> Num:
    """Bytes of the root's gradient: while its parts become one, with no reduced share, or as it travels."""
    weights = step.passes.head + step.passes.table * (not step.tied)
    own = where(step.gradients > step.earlier_gradients, step.gradients_of(weights), 0.0)
    return maximum(2 * GATHERED_BYTES * weights - own, step.reduce_bytes * weights)
