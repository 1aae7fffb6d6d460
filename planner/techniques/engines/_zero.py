"""DeepSpeed's ZeRO of whole weights: gradients go through flat buckets, or wait for one reduction at the end.

Line by line in DeepSpeed 0.19.8, and as its engine was counted (``tests/oracle/zero_memory``).
"""

from __future__ import annotations

import numpy as np

from planner.numeric import Num, maximum, minimum, where
from planner.techniques.engines._fsdp import passing_moments
from planner.techniques.engines.family import GATHERED_BYTES, Moment, Moments, Step

NORM_BYTES = 8.0
"""Bytes of a gradient in the dtype of norms. [byte]"""


def bucket_moments(step: Step) -> Moments:
    """Return the moments of whole weights whose gradients ranks reduce.

    With ZeRO-1 or ZeRO-2 three compete: the loss, the last layers' backward beside buckets, which the first
    gradient makes, and a bucket's reduction, which lays it end to end once more, in the middle
    of a layer's backward where it is full before the end. Buckets end with a
    micro-batch, but for ZeRO-1's, which like its whole gradients last from the first to the last. Without
    ZeRO all gradients are reduced at the end of backward, a bucket at a time.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, ``deepspeed/runtime/zero/stage_1_and_2.py``, ``process_gradients`` and
       ``setup_buckets``; ``allreduce_bucket``, whose ``flatten`` is the copy;
       ``independent_gradient_partition_epilogue``, ``_release_ipg_buffers``.
    .. [2] The same, ``deepspeed/runtime/engine.py``, ``buffered_allreduce_fallback``.
    """
    if not step.sharding.shards_optimizer:
        return (*passing_moments(step, step.summed_gradients), _reduced_at_once(step))
    passes, filled = step.passes, bucket_share(step)
    later = (step.plan.num_microbatches > 1) | step.after_others
    lasting = later & (not step.sharding.shards_gradients)
    earlier = where(later, part_gradients(step), 0.0)
    beside = maximum(passes.rebuilt + passes.loss * step.loss_beside, made_bytes(step))
    left, laid = maximum(0.0, 1.0 - filled), step.reduce_bytes * filled * step.trained
    apart = earlier * where(lasting, left, 1.0)
    inside = where(filled < 1.0, passes.rebuilt / 2, 0.0)
    reduced = left * passes.activations + inside + step.waiting + laid + apart
    last = passes.activations + beside + step.waiting + earlier
    loss = passes.activations + passes.loss + where(lasting, step.waiting, 0.0) + earlier
    return (
        Moment("the last layers' backward", "backward", last, passes.activations, earlier),
        Moment("a bucket's reduction", "backward", reduced, left * passes.activations, apart),
        Moment("the loss", "loss", loss, passes.activations, earlier),
    )


def made_bytes(step: Step) -> Num:
    """Bytes of a gradient as it is made: the head's, or a product's, twice where no bucket holds it."""
    largest = maximum(step.passes.head, learnt_product(step))
    return largest * (GATHERED_BYTES + step.reduce_bytes * np.greater(largest, step.bucket_elements))


def learnt_product(step: Step) -> Num:
    """Weights of the largest product that learn: no more than a layer's. [element]"""
    return minimum(step.passes.product, step.passes.largest_layer)


def part_gradients(step: Step) -> Num:
    """Bytes of gradients that a rank keeps between micro-batches: all, or its part, by whole parameters.

    A part begins and ends within parameters, each of which it keeps whole: half a product at each end, or
    the table.

    References
    ----------
    .. [1] DeepSpeed 0.19.8, as above, ``copy_grads_in_partition``: as large as ``params_in_partition``.
    """
    return parted(step, step.gradients) if step.sharding.shards_gradients else step.gradients


def parted(step: Step, part: Num) -> Num:
    """Bytes of the gradients of a rank's ``part``, by whole parameters."""
    passes, each = step.passes, step.gradient_bytes
    return minimum(each * step.trained, maximum(part + each * learnt_product(step), each * passes.table))


def stepped_gradients(step: Step) -> Num:
    """Bytes of gradients at the optimizer's step: where ranks share states a part, by whole parameters."""
    if not step.sharding.shards_optimizer:
        return step.gradients
    return parted(step, step.gradients / (1.0 if step.sharding.shards_gradients else step.plan.zero_shards))


def largest_part(step: Step, states: Num) -> Num:
    """Weights of the largest parameter that a rank steps, or of its part. [element]"""
    ends = maximum(step.passes.head, step.passes.table)
    largest = maximum(learnt_product(step), ends)
    if step.sharding.shards_parameters:
        return largest / step.plan.zero_shards
    return minimum(states, largest)


def bucket_share(step: Step) -> Num:
    """Share of a rank's gradients that are reduced at once: a bucket, or the largest product."""
    filled = maximum(step.bucket_elements, learnt_product(step))
    return minimum(1.0, filled / maximum(step.trained, 1.0))


def _reduced_at_once(step: Step) -> Moment:
    """Return the moment of all gradients, and the bucket of them that is reduced."""
    ranks = where(step.plan.dp > 1, 1.0, 0.0)
    size = step.gradients + ranks * step.reduce_bytes * bucket_share(step) * step.trained
    return Moment("the gradients' reduction", "backward", size, 0.0 * size, step.gradients)
