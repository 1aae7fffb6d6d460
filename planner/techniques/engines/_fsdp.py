"""PyTorch's FSDP and DDP: gradients come with the backward pass."""

from __future__ import annotations

import numpy as np

from planner import numeric
from planner.dataclasses import replace
from planner.numeric import Num, maximum, minimum, where
from planner.techniques.engines._gathering import beside_bytes, head_bytes, late_gradients
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step

TINY = 1e-9
"""The least share of layers that stay on the device: none may. [-]"""


def fsdp_moments(step: Step) -> Moments:
    """Return the moments of weights that are sharded between steps.

    Four compete: the loss, or the head's own gradient, with the head gathered; the backward of the last
    layers, with all activations, two gathered layers and one whole gradient to be reduced; that of the
    first, with the embedding gathered next and all gradients but its own there; and the embedding's. An
    encoder that is gathered as one has a backward of its own after them. Where
    weights stay gathered, those of all layers are there until the last one's backward; in a pipeline until
    the step's end.

    References
    ----------
    .. [1] PyTorch, ``torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py``: unshard, prefetch, reduce.
    """
    passes, earlier, reduced = step.passes, step.earlier_gradients, step.unreduced
    latest, inside, made = late_gradients(step, earlier), inside_bytes(step), made_gradients(step, earlier)
    layer = passes.gathered_layer
    body = (step.gathered - passes.gathered_head) * step.sharding.keeps_gathered
    loss = passes.activations + head_bytes(step) + earlier + body
    head = step.reduce_bytes * passes.head * (not step.loss_beside)
    waiting = maximum(head, passed_bytes(step, reduced, earlier))
    last = passes.activations + inside + beside_bytes(step) + waiting + latest
    last = last + maximum(2 * layer, body)
    following = layer + maximum(passes.gathered_embedding, layer)
    following = where(step.plan.pp > 1, maximum(following, step.gathered), following)
    first = passes.one_layer + inside + following + reduced + made
    ending = table_bytes(step, reduced, earlier)
    return (
        *encoder_moments(step),
        Moment("the first layer's backward", "backward", first, passes.one_layer, made),
        Moment("the embedding's backward", "backward", ending, passes.one_layer, made),
        Moment("the last layers' backward", "backward", last, passes.activations, latest),
        Moment("the loss", "loss", loss, passes.activations, earlier),
    )


def encoder_moments(step: Step) -> Moments:
    """Return the moment of an encoder that is gathered as one: its backward, beside all gradients.

    First all is there that it left for its backward, last its whole gradient and what goes to be reduced.
    """
    weights, left = step.passes.encoder, step.passes.encoder_left
    if not numeric.any(weights):
        return ()
    whole = GATHERED_BYTES * weights
    size = where(np.greater(weights, 0), whole + maximum(left, whole + step.reduce_bytes * weights), 0.0)
    return (Moment("the encoder's backward", "backward", size + step.gradients, left, step.gradients),)


def ddp_moments(step: Step) -> Moments:
    """Return the moments of whole weights whose gradients ranks sum in buckets: `whole_moments` beside them.

    Gradients are no views of buckets unless a program asks for it, so that ranks hold each twice: those of
    the step before lie in buckets all the time, where they are all-reduced and from which they are copied
    back. Copies in 16 bits of weights in fp32 are cached until the loss is there, and kept by the products
    that need them in backward, which layers that run again make anew.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/nn/parallel/distributed.py``, ``gradient_as_bucket_view=False``, and
       ``torch/csrc/distributed/c10d/reducer.cpp``, ``initialize_buckets`` and ``finalize_bucket_dense``;
       Accelerate has the same default (``DistributedDataParallelKwargs``).
    .. [2] PyTorch 2.13, ``aten/src/ATen/autocast_mode.cpp``, ``cached_cast`` and ``clear_cache``.
    """
    layer = minimum(step.gathered, step.passes.gathered_layer)
    kept = layer if step.whole_layers else maximum(0.0, step.gathered - step.passes.gathered_head)
    copies = {"the loss": step.gathered, "the last layers' backward": kept, "the end of backward": 0.0}
    ranks = (step.plan.dp > 1) & (not step.sharding.shards_optimizer)
    buckets = where(ranks, step.gradients, 0.0)
    return tuple(
        replace(
            one,
            size=one.size + copies.get(one.name, layer) + buckets,
            gradients=buckets if one.gradients is None else one.gradients + buckets,
        )
        for one in passing_moments(step, step.summed_gradients)
    )


def whole_moments(step: Step) -> Moments:
    """Return the moments of whole weights whose gradients are made in backward.

    Four compete: the loss; the backward of the last layers, with all activations; that of the first, with all
    gradients but its own there; and the end, with all gradients. Where ranks share them, those of the step
    before stay.
    """
    return passing_moments(step, step.earlier_gradients)


def passing_moments(step: Step, earlier: Num) -> Moments:
    """Return the moments of whole weights beside gradients of earlier passes. [byte]

    Where layers come back from the host, activations shrink and gradients grow evenly until then: the moment
    is between the one with all activations, as without a host, and the first layer's backward.
    """
    passes = step.passes
    latest, inside, made = late_gradients(step, earlier), inside_bytes(step), made_gradients(step, earlier)
    own = earlier + maximum(0.0, passed_bytes(step, 0.0, earlier))
    there = maximum(own, minimum(latest, made))
    loss = passes.activations + passes.loss + earlier
    beside = inside + passes.loss * step.loss_beside
    last, first = passes.activations + beside + there, passes.one_layer + inside + made
    if passes.grown is not None:
        whole = passes.activations / maximum(1.0 - passes.grown, TINY)
        last = minimum(last, maximum(first, whole + beside + own))
    return (
        Moment("the first layer's backward", "backward", first, passes.one_layer, made),
        Moment("the end of backward", "backward", step.gradients, passes.one_layer, made),
        Moment("the last layers' backward", "backward", last, passes.activations, latest),
        Moment("the loss", "loss", loss, passes.activations, earlier),
    )


def inside_bytes(step: Step) -> Num:
    """Bytes of a layer's backward: what it rebuilds, or its gradients, less what forward left for it."""
    return maximum(step.passes.rebuilt, GATHERED_BYTES * step.passes.largest_layer - step.passes.one_layer)


def made_gradients(step: Step, earlier: Num) -> Num:
    """Bytes of gradients in the first layer's backward, which is yet to make its own and the embedding's."""
    unmade = step.gradients_of(step.passes.largest_layer + step.passes.table)
    return maximum(earlier, step.gradients - unmade)


def passed_bytes(step: Step, reduced: Num, earlier: Num) -> Num:
    """Bytes to be reduced after the last layer's backward, beside its own gradients and the head's."""
    gone = step.passes.one_layer * (not step.whole_layers)
    own = step.gradients_of(step.passes.largest_layer + step.passes.head)
    return reduced - gone + where(step.gradients > earlier, own, 0.0)


def table_bytes(step: Step, reduced: Num, earlier: Num) -> Num:
    """Bytes in the embedding's backward: the table, its gradient, whole where it was divided, and all others.

    References
    ----------
    .. [1] PyTorch 2.13, ``torch/distributed/tensor/_ops/_embedding_ops.py``, the backward's strategy; counted
       by ``torch.distributed._tools``.
    """
    table, tp = step.passes.table, step.plan.tp
    unmade = where(step.gradients > earlier, table * step.gradient_bytes / step.plan.zero_shards, 0.0)
    whole = GATHERED_BYTES * (where(tp > 1, tp, 0.0) * step.whole_tables) * table
    beside = maximum(table * step.reduce_bytes, GATHERED_BYTES * table + reduced - unmade)
    return GATHERED_BYTES * table + whole + beside + step.gradients
